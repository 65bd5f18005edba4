"""`make harness-cost`: what watching takes of the throughput that it watches, into docs/proof.

Exit codes: 0 it is as little as promised; 1 it is not, or that stays undecided. Interrupted, it
goes on with the next call.
"""

from __future__ import annotations

import sys

from grampus.bench.matrix.loading import load_matrix_suites
from tests.proof.experiments.measuring import measure
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT

SUITES = CHECKOUT / "suites" / "checks"
PAGE = CHECKOUT / "docs" / "proof" / "harness-cost.md"
DIRECTORY = CHECKOUT / "build" / "harness-cost"
SCALE = "small"
HOLDS = "holds"


def main() -> int:
    """Measure on a lab of its own, write the page; the exit code."""
    (suite,) = load_matrix_suites(SUITES)
    with own_lab("harness", DIRECTORY) as command_line:
        found = measure(command_line, suite, str(SUITES / f"{suite.name}.yaml"), SCALE)
    PAGE.write_text(found.page)
    verdicts = found.line.verdicts
    sys.stdout.write(f"{verdicts}\nThe page is {PAGE}.\n")
    return 0 if set(verdicts.values()) == {HOLDS} else 1


if __name__ == "__main__":
    sys.exit(main())
