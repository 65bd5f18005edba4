"""How long the tests go on: briefly in `make test`, as long as asked for in `make soak`."""

from __future__ import annotations

import os

# How often a fault is provoked in one test.
REPEATS = int(os.environ.get("GRAMPUS_TEST_REPEATS", "1"))
# How long a volume is kept under load while its daemon's memory is watched.
SOAK_S = int(os.environ.get("GRAMPUS_TEST_SOAK_S", "15"))
# Which write paths the faults of a volume are provoked with; `test_volumed_journal.py` has the
# ones that matter most for `journal` in each run.
WRITE_PATHS = ("direct",) if REPEATS == 1 else ("direct", "journal")
