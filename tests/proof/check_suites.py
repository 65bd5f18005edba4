"""`make harness-cost`, `make controller-cost` and `make environments-alike`: a suite that checks
benchmarks themselves, into docs/proof.

The argument is the suite's name. Exit codes: 0 its conclusion holds; 1 it does not, or that stays
undecided. For arms that are alike: 0 no more wrong answers than promised, 1 more of them.
Interrupted, it goes on with the next call.
"""

from __future__ import annotations

import sys

from grampus.bench.matrix.loading import load_matrix_suites
from tests.proof.alike_arms import is_kept, read_pairs, render_answers
from tests.proof.experiments.measuring import measure
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT

SUITES = CHECKOUT / "suites" / "checks"
SCALE = "small"
HOLDS = "holds"
ALIKE = "environments-alike"


def main(name: str) -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    (suite,) = (one for one in load_matrix_suites(SUITES) if one.name == name)
    with own_lab("cost", CHECKOUT / "build" / name) as command_line:
        found = measure(command_line, suite, SUITES / f"{suite.name}.yaml", SCALE)
    page = CHECKOUT / "docs" / "proof" / f"{name}.md"
    verdicts = found.line.verdicts
    sys.stdout.write(f"{verdicts}\nThe page is {page}.\n")
    if name == ALIKE:
        pairs = read_pairs(found.trials or "", *suite.arms)
        page.write_text(insert_section(found.page, render_answers(pairs)))
        return 0 if is_kept(pairs) else 1
    page.write_text(found.page)
    return 0 if set(verdicts.values()) == {HOLDS} else 1


def insert_section(page: str, section: str) -> str:
    """The page with that section before its arms."""
    return page.replace("\n## Arms\n", f"\n{section}\n## Arms\n", 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
