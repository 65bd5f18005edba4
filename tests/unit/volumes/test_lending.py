"""An image opened by a client that no driver starts: one at a time, and cleared up like any."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import RefusedError
from grampus.hosts.port import HostUnreachableError
from grampus.volumes.model import EncryptionName, WritePath
from tests.fakes.interruption import stopped_runs

from .world import World, prepared

KEYRING = PurePosixPath("/data/h1/etc-ceph/ceph.client.grampus.t.demo.keyring")


def _used(world: World) -> None:
    """A volume with a file system, attached to no host."""
    world.create()
    world.attach()
    world.service().ensure_detached("demo")


def _lend(world: World) -> None:
    world.service().lending.lend("demo", "h1")


def test_the_host_has_the_key_and_the_record_names_it(world: World) -> None:
    _used(world)
    _lend(world)
    record = world.service().get("demo")
    assert (record.host, record.attachment) == ("h1", None)
    assert str(KEYRING) in {str(path) for path in world.h1.files}
    before = world.inventory()
    _lend(world)
    assert world.inventory() == before


def test_it_is_ended_by_detaching_it(world: World) -> None:
    _used(world)
    before = world.inventory()
    _lend(world)
    world.service().ensure_detached("demo")
    assert world.inventory() == before
    world.attach(host="h2")


def test_it_is_attached_nowhere_else_meanwhile(world: World) -> None:
    _used(world)
    _lend(world)
    for attach in (
        lambda: world.service().ensure_attached("demo", "h2"),
        lambda: world.service().lending.lend("demo", "h2"),
    ):
        with pytest.raises(RefusedError) as caught:
            attach()
        assert caught.value.code == "attached-elsewhere"


def test_an_attached_volume_is_not_lent(world: World) -> None:
    world.create()
    world.attach()
    before = world.inventory()
    with pytest.raises(RefusedError, match="is attached to h1") as caught:
        _lend(world)
    assert caught.value.code == "attached-elsewhere"
    assert world.inventory() == before


@pytest.mark.parametrize(
    ("write_path", "encryption", "said"),
    [
        ("direct", None, "has no file system"),
        ("journal", None, "only volumed can read it"),
        ("cache", None, "only volumed can read it"),
        ("direct", "luks2", "only volumed decrypts it"),
    ],
)
def test_what_a_client_would_read_wrongly_is_not_lent(
    world: World, write_path: WritePath, encryption: EncryptionName | None, said: str
) -> None:
    world.build_volumed()
    world.create(write_path=write_path, encryption=encryption)
    before = world.inventory()
    with pytest.raises(RefusedError, match=said) as caught:
        _lend(world)
    assert caught.value.code == "cannot-lend"
    assert world.inventory() == before


def test_nothing_is_lent_to_a_host_that_is_away(world: World) -> None:
    _used(world)
    before = world.inventory()
    world.h1.up = False
    with pytest.raises(HostUnreachableError):
        _lend(world)
    world.h1.up = True
    assert world.inventory() == before


def test_a_kill_at_any_moment_of_lending_is_gone_on_from(tmp_path: Path) -> None:
    whole = World(tmp_path / "whole")
    _used(whole)
    _lend(whole)
    for point, world in stopped_runs(prepared(tmp_path, _used), _lend, more_than=4):
        _lend(world)
        assert world.inventory() == whole.inventory(), point


def test_a_kill_at_any_moment_of_lending_leaves_nothing_that_is_not_removed(
    tmp_path: Path,
) -> None:
    for point, world in stopped_runs(prepared(tmp_path, _used), _lend, more_than=4):
        world.service().delete("demo")
        left = world.inventory()
        assert not left["images"], point
        assert not left["files"], point
        assert not left["users"], point
