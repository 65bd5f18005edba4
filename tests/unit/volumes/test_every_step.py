"""No kind of operation on volumes, and no step of one, is left out where they are stopped.

The tables of the tests below are stopped at every call and, as their world's journal burns the
fuse, before and after every step; this holds them against the kinds and steps of the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tests.system.declared_steps import volume_step_names

from . import test_interrupted, test_migrate_interrupted, test_snapshots_interrupted
from .test_interrupted import Act
from .world import World


def _stopped() -> Iterator[tuple[Act, Act]]:
    """What is there before, and what is then stopped."""
    for prepare, act, _ in test_interrupted.CASES.values():
        yield prepare, act
    yield from test_snapshots_interrupted.CASES.values()
    yield from test_migrate_interrupted.CASES.values()
    yield from test_migrate_interrupted.ROTATIONS


def test_every_kind_is_stopped_at_every_step_that_its_code_names(tmp_path: Path) -> None:
    met: dict[str, set[str]] = {}
    for number, (prepare, act) in enumerate(_stopped()):
        with closing(World(tmp_path / str(number))) as world:
            prepare(world)
            world.journal.met.clear()
            act(world)
            for kind, names in world.journal.met.items():
                met.setdefault(kind, set()).update(names)
    assert met == {kind: set(names) for kind, names in volume_step_names().items()}
