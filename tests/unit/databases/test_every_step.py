"""Every kind of operation, stopped at every step and call, and stopped again while it is settled.

INV-27. No kind can be forgotten: the last tests hold the cases against the catalogue of kinds and
against the steps that the code names.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.catalogue import KINDS, operation_type
from grampus.databases.clones.decide_golden import GOLDEN_PREFIX, GOLDEN_SNAPSHOT
from tests.fakes.interruption import Killed, burn_points, stopped_runs
from tests.fakes.mysql_accounts import accounts_of
from tests.fakes.mysql_host import OPENED_BY
from tests.fakes.mysql_roles import roles_of
from tests.system.declared_steps import database_step_names

from .stopped_case import ROWS, Case, passwords_on_file_work, trash
from .stopped_operations import CASES as ALL
from .world import LAB, World, prepared

CASES = pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
# What differs from run to run, or from moment to moment.
_MOMENTS = re.compile(
    r"datetime\.datetime\((?:[^()]|\([^()]*\))*\)"
    r"|\d{4}-?\d\d-?\d\d[-tT ]?\d\d:?\d\d:?\d\d(?:\.\d+)?(?:Z|z|\+00:00)?"
)
# The identity of a place of backups, in names of snapshots; and where the shelf is.
_OF_THE_SHELF = re.compile(r"(?<=backup-)[0-9a-f]{8}-|/[^\"']*(?=/shelf)")
_PASSING = {"id", "created_at", "last_move_pause_ms", "last_upgrade", "last_rollback", "renewed_at"}


def state(world: World, *, without: str = "") -> dict[str, str]:
    """All that is there and could leak, and the rows, without what differs from run to run.

    `without`: snapshots that begin so are left out.
    """
    service, volumes = world.service(), world.volumes
    images = {
        name: image
        for name, image in sorted(volumes.images.items())
        if not (name.startswith(GOLDEN_PREFIX) and GOLDEN_SNAPSHOT in image.snapshots)
    }
    records = service.operations.records.all()
    found: dict[str, Any] = dict(world.inventory())
    found["all records"] = [
        record.model_dump(exclude=_PASSING) for _, record in sorted(records.items())
    ]
    found["facts"] = {name: image.lasting_facts for name, image in images.items()}
    found["snapshots"] = {
        name: [
            (kept.info.name, kept.info.protected, _rows(kept.files))
            for kept in image.snapshots.values()
            if not (without and kept.info.name.startswith(without))
        ]
        for name, image in images.items()
    }
    found["parents"] = {name: image.parent for name, image in images.items()}
    contents = {name: volumes._content(image) for name, image in images.items()}
    found["rows"] = {name: _rows(content) for name, content in contents.items()}
    found["opened by"] = {
        name: content[_OPENED_BY].content
        for name, content in contents.items()
        if _OPENED_BY in content
    }
    found["trash"] = [(each.record.spec.name, each.record.desired) for each in trash(world).all()]
    found["trashed images"] = len(volumes.trash.images)
    found["migrating"] = sorted(volumes.migrations.begun)
    secrets = world.home.secrets_dir(LAB)
    found["secrets"] = sorted(str(path.relative_to(secrets)) for path in secrets.rglob("*"))
    found["accounts"] = {
        f"{host.name}:{path}": sorted(
            (user, account.role, account.former is not None)
            for user, account in accounts_of(file.content).items()
        )
        for host in world.hosts.values()
        for path, file in sorted(host.files.items())
        if path.name == "accounts"
    }
    found["roles"] = {
        f"{host.name}:{path}": roles_of(file.content).shown()
        for host in world.hosts.values()
        for path, file in sorted(host.files.items())
        if path.name == "accounts"
    }
    shelf = getattr(world, "shelf", None)
    if shelf is not None:
        found["shelf"] = sorted(str(path.relative_to(shelf)) for path in shelf.rglob("*"))
    return {
        key: _MOMENTS.sub("MOMENT", _OF_THE_SHELF.sub("", repr(value)))
        for key, value in found.items()
    }


def _rows(files: Any) -> list[str]:
    return [file.content for path, file in files.items() if path in (ROWS, *_OTHER_ROWS)]


_OPENED_BY = PurePosixPath("data") / OPENED_BY  # the last version that served it
_OTHER_ROWS = (ROWS.with_name("shop.ibd"),)
# What the next command says about an operation that was cut off.
_SAID = {"gone": "undone", "done": "finished"}


def _ends(root: Path, case: Case) -> tuple[dict[str, str], dict[str, str], dict[str, list[str]]]:
    """What is there before and after the operation, and the steps that it took, by kind."""
    with closing(case.make(root)) as world:
        case.prepare(world)
        before = state(world)
        world.journal.met.clear()
        case.act(world)
        case.settle(world)
        return before, state(world), dict(world.journal.met)


def _settled(world: World, case: Case, *, without: str = "") -> dict[str, str]:
    """What is there after the next command."""
    world.service().converge()
    assert world.journal.unfinished(LAB) == []
    found = state(world, without=without)
    assert world.service().converge() == []
    return found


def _expected(
    case: Case, before: dict[str, str], after: dict[str, str]
) -> tuple[dict[str, str], ...]:
    return {"gone": (before,), "done": (after,), "either": (before, after)}[case.end]


def _require(found: dict[str, str], ends: tuple[dict[str, str], ...], when: str) -> None:
    """Fail with what differs from the first of the ends when it is none of them."""
    if found not in ends:
        differs = [key for key in found if found[key] != ends[0].get(key)]
        said = "\n".join(f"{key}: {found[key]}\n  not: {ends[0].get(key)}" for key in differs)
        pytest.fail(f"{when}:\n{said}")


@CASES
def test_killed_at_any_point_it_is_finished_or_undone(tmp_path: Path, case: Case) -> None:
    before, after, _ = _ends(tmp_path / "whole", case)
    cut_off = 0
    for point, world in stopped_runs(
        prepared(tmp_path, case.prepare, case.make), case.act, more_than=1
    ):
        has_begun = case.kind in [each.kind for each in world.journal.unfinished(LAB)]
        cut_off += has_begun
        said = world.service().converge()
        if has_begun and case.end in _SAID and not case.is_silent:
            assert [_SAID[case.end] in sentence for sentence in said] == [True], said
        found = _settled(world, case)
        if found not in (before, after):
            case.settle(world)
            found = state(world)
        ends = _expected(case, before, after) if has_begun else (before, after)
        _require(found, ends, f"killed at {point}")
        if case.make is World:
            assert passwords_on_file_work(world), f"killed at {point}"
    assert cut_off > 1, f"{case.kind} was never cut off"


@CASES
def test_killed_at_any_point_while_it_is_settled_it_is_settled_in_the_end(
    tmp_path: Path, case: Case
) -> None:
    before, after, met = _ends(tmp_path / "whole", case)
    # From where there is most to do: all but the first step, or the undo of all of them.
    step = met[case.kind][0 if case.end == "done" else -1]

    def cut_off(world: World) -> None:
        case.prepare(world)
        world.journal.dies_after = (case.kind, step)
        with pytest.raises(Killed):
            case.act(world)

    for point, world in stopped_runs(
        prepared(tmp_path, cut_off, case.make), _converge, more_than=-1
    ):
        found = _settled(world, case)
        if found not in (before, after):
            case.settle(world)
            found = state(world)
        ends = _expected(case, before, after)
        _require(found, ends, f"cut off after {step}, killed at {point} of settling it")


def _converge(world: World) -> None:
    world.service().converge()


def _is_killed(world: World, case: Case) -> bool:
    """Whether it died; some that fail are gone on without, and say nothing."""
    try:
        case.act(world)
    except Killed:
        return True
    except GrampusError:
        pass
    world.fuse.left = None
    return False


UNDONE = [case for case in ALL if operation_type(case.kind).is_undone_on_failure]


@pytest.mark.parametrize("case", UNDONE, ids=[case.name for case in UNDONE])
def test_one_that_fails_after_any_step_is_undone_however_its_undo_is_killed(
    tmp_path: Path, case: Case
) -> None:
    before, after, met = _ends(tmp_path / "whole", case)
    steps = met[case.kind]
    if case.no_way_back:
        steps = steps[: steps.index(case.no_way_back)]
    with closing(case.make(tmp_path / "before")) as world:
        case.prepare(world)
        before = state(world, without=case.keeps)
    ends = (before, after) if case.end == "either" else (before,)
    for step in steps:
        for point in burn_points() if step == steps[-1] else (10**6,):
            with closing(case.make(tmp_path / f"{step}-{point}")) as world:
                case.prepare(world)
                world.journal.fails_after = (case.kind, step)
                world.journal.undo_calls = point
                was_killed = _is_killed(world, case)
                found = _settled(world, case, without=case.keeps)
                _require(found, ends, f"failed after {step}, its undo killed at {point}")
                if not was_killed:
                    break


# -- nothing is left out ------------------------------------------------------------------------

# Steps that the code could give a kind, and never does.
NEVER = {
    ("db.rollback-for-good", "safety"): "what it goes without",
    **dict.fromkeys(
        ((kind, "flatten-due") for kind in ("db.clone", "db.replica-add", "db.replica-renew")),
        "only a new database is asked whether it is to stand alone",
    ),
    ("db.restore", "flatten-due"): "its volume shares nothing",
}


def _met_steps(root: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for case in ALL:
        _, _, met = _ends(root / case.name, case)
        found.setdefault(case.kind, set()).update(met[case.kind])
    return found


def test_every_kind_is_stopped_at_every_step_that_its_code_names(tmp_path: Path) -> None:
    met = _met_steps(tmp_path)
    assert set(met) == set(KINDS), "a kind of operation that no case stops, or that is gone"
    declared = {kind: set(database_step_names(kind)) for kind in KINDS}
    missing = [
        f"{kind}/{step}"
        for kind in KINDS
        for step in sorted(declared[kind] - met[kind])
        if (kind, step) not in NEVER
    ]
    assert missing == [], "steps at which no case stops"
    unknown = [f"{kind}/{step}" for kind, names in met.items() for step in names - declared[kind]]
    assert unknown == [], "steps that nobody finds in the code"
