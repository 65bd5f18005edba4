"""What a command imports before it does its work: no more than it uses.

A start is slow by what is imported, so that is what is looked at: it is the same on any machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

# Runs a command as `grampus` would, and says what was imported by then.
_RUN = """
import json, sys
from grampus.cli.main import main
sys.argv = ["grampus", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
_HEAVY = {
    "botocore",
    "grampus.bench",
    "grampus.databases.backup.taking",
    "grampus.databases.rebuild.rebuilding",
    "grampus.report",
    "jinja2",
    "typer.rich_utils",
    "yaml",
    "zstandard",
}
_DATABASES = {"grampus.databases", "grampus.volumes.service", "cryptography"}
# What carries a benchmark out, which showing one does not.
_RUNNING = {
    "grampus.cli.composition.matrix",
    "grampus.bench.trials.matrix_runner",
    "grampus.bench.paths.runner",
}
_FEATURES = {
    "grampus.databases.live.moving",
    "grampus.databases.replicas.replica_steps",
    "grampus.databases.snapshots.snapshot_steps",
    "grampus.databases.upgrades.upgrading",
    "grampus.databases.users.users",
    "grampus.databases.verify.verification",
}


def imported_by(*words: str) -> set[str]:
    """The modules that were imported when the command `grampus WORDS` ended."""
    run = subprocess.run(
        [sys.executable, "-c", _RUN, *words], capture_output=True, text=True, check=True
    )
    return set(json.loads(run.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("words", "refrains_from", "most_of_ours"),
    [
        (["--version"], _HEAVY | _DATABASES | _FEATURES | {"pydantic"}, 12),
        (["lab", "status"], _HEAVY | _DATABASES | _FEATURES, 102),
        (["lab", "list"], _HEAVY | _DATABASES | _FEATURES, 102),
        (["volume", "list"], _HEAVY | _FEATURES, 250),
        (["db", "list"], _HEAVY | _FEATURES, 253),
        (["db", "create", "shop", "--size", "1G"], _HEAVY | _FEATURES, 253),
        (["db", "clone", "shop", "copy"], _HEAVY | _FEATURES, 260),
        (["bench", "show"], _RUNNING | _DATABASES | _FEATURES, 105),
        (["bench", "list"], _RUNNING | _DATABASES | _FEATURES, 105),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_no_more_than_it_uses(
    words: list[str], refrains_from: set[str], most_of_ours: int
) -> None:
    imported = imported_by(*words)
    assert not imported & refrains_from
    assert len([name for name in imported if name.startswith("grampus")]) <= most_of_ours


def test_what_is_looked_for_is_there() -> None:
    """A module of another name would never be found, nor one that is not listed."""
    assert all(find_spec(name) for name in _HEAVY | _DATABASES | _FEATURES | _RUNNING)
    assert imported_by("bench", "run", "--help") >= {"grampus.bench", "typer.rich_utils", "yaml"}
