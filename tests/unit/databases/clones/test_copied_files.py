"""Databases copied to volumes with an external log, which their sources do not have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.names import MAX_NAME_LENGTH, require_name
from grampus.core.units import GIB
from grampus.databases.clones.copied_files import (
    COPY_FILES,
    RECORD_BYTES,
    name_of_files,
    parse_used,
)
from grampus.volumes.decide_external_log import EXTERNAL_LOG_BYTES
from grampus.volumes.model import WritePath
from tests.unit.databases.clones.test_clones import clone, rows, write_rows
from tests.unit.databases.world import World
from tests.unit.operation_runner import planned


@pytest.mark.parametrize("write_path", ["journal", "cache"])
@pytest.mark.parametrize("encrypt", [False, True])
@pytest.mark.parametrize("stopped", [False, True])
def test_the_copy_has_the_files_and_shares_nothing(
    world: World, write_path: WritePath, *, encrypt: bool, stopped: bool
) -> None:
    world.create(encrypt=encrypt)
    write_rows(world, "demo", "as it was")
    if stopped:
        world.service().stop("demo")
    clone(world, write_path=write_path, external_log=True)
    made = world.volumes.images["copy"]
    spec = made.record.spec
    assert (spec.external_log_bytes, spec.write_path) == (EXTERNAL_LOG_BYTES, write_path)
    assert world.service().get("copy").spec.external_log_bytes == EXTERNAL_LOG_BYTES
    assert (made.parent, made.record.source) == (None, None)
    assert rows(world, "copy") == "as it was"
    assert world.service().show("copy").status == "running"
    assert world.volumes.images["demo"].snapshots == {}
    assert [name for name in world.volumes.images if name.endswith("-files")] == []
    world.service().delete("demo")  # nothing keeps it
    assert rows(world, "copy") == "as it was"


def test_a_dry_run_tells_of_the_copy(world: World) -> None:
    world.create()
    steps = planned(
        world.service().operations.runner,
        lambda: clone(world, write_path="journal", external_log=True),
    )
    assert "Copy the files of demo" in steps
    assert "Create a volume of 10 GiB with an external log in pool databases" in steps
    assert "Remove that snapshot from demo" in steps


@pytest.mark.parametrize(
    ("source", "copy", "problem"),
    [
        ("journal", "journal", "The volume of demo has an external log already."),
        ("journal", "direct", "The volume of demo has an external log already."),
        ("direct", "direct", "An external log gains nothing with the write path direct."),
        ("direct", None, "An external log gains nothing with the write path direct."),
    ],
)
def test_refused(world: World, source: WritePath, copy: WritePath | None, problem: str) -> None:
    world.create(write_path=source)
    with pytest.raises(RefusedError) as caught:
        clone(world, write_path=copy, external_log=True)
    assert (caught.value.problem, caught.value.code) == (problem, "external-log")
    assert set(world.service().operations.records.names()) == {"demo"}


def test_a_copy_that_fails_leaves_nothing(world: World) -> None:
    world.create()
    before = world.inventory()
    host = world.hosts["h1"]

    def fail(*_: object) -> None:
        raise GrampusError("cp: No space left on device")

    for one in world.hosts.values():
        one._copy = fail  # type: ignore[method-assign]
    with pytest.raises(GrampusError, match="No space left"):
        clone(world, write_path="journal", external_log=True)
    assert world.inventory() == before
    assert host.daemons


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ("               90000                30000\n", (90000, 30000)),
        ("               90000                    -\n", None),
        ("                   0                    0\n", None),
        ("               90000\n", None),
        ("", None),
    ],
)
def test_how_much_is_copied(record: str, expected: tuple[int, int] | None) -> None:
    assert parse_used(record) == expected


def test_a_copy_tells_how_far_it_is(world: World) -> None:
    world.create()
    for one in world.hosts.values():
        one.copied = [(4 * GIB, GIB), (4 * GIB, 5 * GIB)]
    clone(world, write_path="journal", external_log=True)
    assert [detail for detail in world.progress.details if " of 4 GiB" in detail[0]] == [
        ("1 GiB of 4 GiB", 0.25),
        ("5 GiB of 4 GiB", 1.0),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_the_program_copies_and_tells_of_it(tmp_path: Path, *, fails: bool) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "data").mkdir(parents=True)
    (source / "data/ibdata1").write_bytes(b"x" * 100_000)
    if fails:
        target.touch()
    else:
        target.mkdir()
    argv = ["sh", "-c", COPY_FILES, "copy-files", str(source), str(target)]
    done = subprocess.run(argv, capture_output=True, timeout=30, check=False)
    assert (done.returncode == 0) is not fails
    assert len(done.stdout) % RECORD_BYTES == 0
    if not fails:
        assert (target / "data/ibdata1").read_bytes() == b"x" * 100_000
        assert parse_used(done.stdout[:RECORD_BYTES].decode())


def test_the_volume_that_is_copied_from_has_a_name_of_its_own() -> None:
    assert name_of_files("shop") == "shop-files"
    for name in ("a" * MAX_NAME_LENGTH, "a" * 25 + "-bcdefg"):
        made = name_of_files(name)
        assert require_name("volume", made) == made
