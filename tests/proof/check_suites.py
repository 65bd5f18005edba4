"""`make harness-cost`, `make controller-cost` and `make environments-alike`: a suite that checks
benchmarks themselves, into docs/proof.

The argument is the suite's name. Exit codes: 0 its conclusion holds; 1 it does not, or that stays
undecided. Interrupted, it goes on with the next call.
"""

from __future__ import annotations

import sys

from grampus.bench.matrix.loading import load_matrix_suites
from tests.proof.experiments.measuring import measure
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT

SUITES = CHECKOUT / "suites" / "checks"
SCALE = "small"
HOLDS = "holds"


def main(name: str) -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    (suite,) = (one for one in load_matrix_suites(SUITES) if one.name == name)
    with own_lab("cost", CHECKOUT / "build" / name) as command_line:
        found = measure(command_line, suite, str(SUITES / f"{suite.name}.yaml"), SCALE)
    page = CHECKOUT / "docs" / "proof" / f"{name}.md"
    page.write_text(found.page)
    verdicts = found.line.verdicts
    sys.stdout.write(f"{verdicts}\nThe page is {page}.\n")
    return 0 if set(verdicts.values()) == {HOLDS} else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
