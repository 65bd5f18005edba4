"""OSD sets on FileStore, on hosts whose file systems hold files only while they are mounted."""

from __future__ import annotations

from pathlib import Path as RealPath

import pytest

from grampus.core.errors import RefusedError
from grampus.hosts.loop_scripts import DETACH_LOOPS
from grampus.hosts.port import DaemonSpec
from grampus.lab.osd_set import OsdSet, find_osd_sets
from tests.fakes.interruption import Fuse, stopped_runs
from tests.fakes.lab_host import FakeCeph, FakeLabHost, Path

from .test_osd_plans import make_set
from .test_osd_sets import LAB, World

PACIFIC = "16.2.15"
FILES = make_set(name="files", media="hdd", objectstore="filestore")


class FilestoreHost(FakeLabHost):
    """A host with file systems: what is on one is seen at its directory alone."""

    def __init__(self, name: str, address: str, ceph: FakeCeph, fuse: Fuse) -> None:
        super().__init__(name, address, ceph, fuse)
        self.filesystems: dict[Path, dict[str, str]] = {}  # file -> what is on it
        self.mounted: dict[Path, str] = {}
        self.modes: dict[Path, int] = {}  # of files on file systems

    def on(self, device: str) -> dict[str, str]:
        """The files on a device, by the file that it is over, whatever its number is now."""
        return self.filesystems[self.slice(device)]

    def write_file(
        self, path: Path, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        if path.parent not in self.mounted:
            super().write_file(path, content, mode=mode, uid=uid, gid=gid)
            return
        with self.changing():
            self.on(self.mounted[path.parent])[path.name] = content
            self.modes[path] = mode

    def reboot(self) -> None:
        super().reboot()
        self.mounted.clear()

    def _can_start(self, spec: DaemonSpec) -> bool:
        binds = {bind.target: Path(bind.source) for bind in spec.binds}
        directory = binds.get(f"/var/lib/ceph/osd/ceph-{spec.name[4:]}")
        if directory is None:
            return super()._can_start(spec)
        device = self.mounted.get(directory)
        if device is None or spec.devices[0] != device:
            return False
        store = self.on(device)
        journal = store.get("journal", "")
        return "fsid" in store and (journal == "1024" or spec.devices[1:] == (journal,))

    def _command(self, argv: list[str], stdin: str | None) -> tuple[int, str]:
        match argv:
            case ["findmnt", "--noheadings", "--output", "SOURCE", "--mountpoint", target]:
                device = self.mounted.get(Path(target)) or self.served.get(Path(target))
                return (1, "") if device is None else (0, f"{device}\n")
            case ["mkfs.xfs", *options, device]:
                assert {"-f", "size=2048"} <= set(options)
                if device in self.mounted.values():
                    return 1, f"{device} contains a mounted filesystem"
                self.filesystems[self.slice(device)] = {}
            case ["mount", "-t", "xfs", "-o", "noatime", device, target]:
                if self.slice(device) not in self.filesystems:
                    return 32, "wrong fs type, bad superblock"
                assert self.text(target) == "directory"
                assert Path(target) not in self.mounted
                self.mounted[Path(target)] = device
            case ["ln", "--symbolic", *_, device, link] if Path(link).parent in self.mounted:
                self.on(self.mounted[Path(link).parent])["journal"] = device
            case ["umount", target] if Path(target) in self.mounted:
                if f"osd-{Path(target).name[4:]}" in self.daemons:
                    return 32, "target is busy"
                del self.mounted[Path(target)]
            case ["rmdir", target]:
                if Path(target) in self.mounted:
                    return 1, "Device or resource busy"
                self.files.pop(Path(target), None)
            case ["python3", "-c", script, *pairs] if script == DETACH_LOOPS:
                used = [device for device in pairs[::2] if device in self.mounted.values()]
                assert not used, "detached while it is mounted"
                return super()._command(argv, stdin)
            case ["ceph-osd", "--mkfs", *options, osd_uuid] if "filestore" in options:
                return self._make_filestore(options, osd_uuid)
            case _:
                return super()._command(argv, stdin)
        return 0, ""

    def _make_filestore(self, options: list[str], osd_uuid: str) -> tuple[int, str]:
        given = dict(zip(options[::2], options[1::2], strict=False))
        directory = Path(given["--osd-data"])
        assert given["--osd-journal"] == str(directory / "journal")
        store = self.on(self.mounted[directory])
        assert f"[osd.{given['--id']}]" in store["keyring"]
        if "fsid" in store:
            return 1, "there is a store already"
        store["fsid"] = osd_uuid
        store.setdefault("journal", given["--osd-journal-size"])
        return 0, ""


class FilestoreWorld(World):
    """A lab of Ceph 16."""

    host_type = FilestoreHost

    def __init__(self, root: RealPath, *, version: str = PACIFIC) -> None:
        super().__init__(root, FILES)
        self.ceph.version = version

    def machines(self) -> list[FilestoreHost]:
        found = [host for host in self.ceph.hosts if isinstance(host, FilestoreHost)]
        assert len(found) == 3
        return found

    def left(self) -> dict[str, object]:
        mounts = [device for host in self.machines() for device in host.mounted.values()]
        return super().left() | {"mounts": sorted(mounts)}

    def require_whole(self) -> None:
        assert sorted(self.ceph.running("osd"), key=int) == [str(n) for n in range(6)]
        assert [list(host.mounted.values()) for host in self.machines()] == [
            [device for device, (file, _) in host.loops.items() if file in host.served]
            for host in self.machines()
        ]
        assert self.ceph.pools["databases-files"]["rule"] == "osd-set-files"
        assert self.journal.unfinished(LAB.name) == []


@pytest.fixture
def world(tmp_path: RealPath) -> FilestoreWorld:
    return FilestoreWorld(tmp_path)


def test_a_set_on_filestore_beside_first_osds_on_bluestore(world: FilestoreWorld) -> None:
    world.add()
    world.require_whole()
    host = world.machines()[0]
    directory = Path("/lab/h1/data/filestore/osd-3")
    store = host.on(host.mounted[directory])
    assert store.keys() == {"keyring", "fsid", "journal"}
    one, first = host.daemons["osd-3"].spec, host.daemons["osd-0"].spec
    assert {bind.target: bind.source for bind in one.binds}["/var/lib/ceph/osd/ceph-3"] == str(
        directory
    )
    assert len(first.binds) == len(one.binds) - 1
    assert [block.write_iops for block in one.limits.block] == [None]
    assert not [word for word in one.argv if "filestore" in word], "not Ceph's own settings"


def test_its_key_is_in_a_private_file_and_on_no_command_line(world: FilestoreWorld) -> None:
    world.add()
    for host in world.machines():
        assert not any("secret-" in word for argv in host.commands for word in argv)
        modes = {path: file.mode for path, file in host.files.items()} | host.modes
        keyrings = {path: mode for path, mode in modes.items() if path.name == "keyring"}
        assert set(keyrings.values()) == {0o600}
        assert [path for path in keyrings if path.is_relative_to(host.data_dir / "filestore")]


def test_added_twice_nothing_is_made_anew(world: FilestoreWorld) -> None:
    world.add()
    before = world.left(), sum("mkfs.xfs" in c for h in world.machines() for c in h.commands)
    world.add()
    assert before == (
        world.left(),
        sum("mkfs.xfs" in c for h in world.machines() for c in h.commands),
    )


@pytest.mark.parametrize("osd_set", [FILES, FILES.model_copy(update={"wal_db_media": "nvme"})])
def test_after_a_reboot_it_comes_up_on_devices_with_other_numbers(
    world: FilestoreWorld, osd_set: OsdSet
) -> None:
    world.osd_set = osd_set
    world.add()
    stores = [{k: v["fsid"] for k, v in host.filesystems.items()} for host in world.machines()]
    for host in world.machines():
        host.reboot()
    world.up()
    world.require_whole()
    assert stores == [
        {k: v["fsid"] for k, v in host.filesystems.items()} for host in world.machines()
    ]


def test_removed_nothing_is_left_mounted(world: FilestoreWorld) -> None:
    world.add()
    world.remove()
    assert world.left() == world.before


def test_stopped_anywhere_an_add_is_finished_by_the_next_one(tmp_path: RealPath) -> None:
    runs = stopped_runs(
        lambda n: FilestoreWorld(tmp_path / str(n)), FilestoreWorld.add, more_than=90
    )
    for _, world in runs:
        world.add()
        world.require_whole()


def test_stopped_anywhere_an_add_is_undone_by_a_removal(tmp_path: RealPath) -> None:
    runs = stopped_runs(
        lambda n: FilestoreWorld(tmp_path / str(n)), FilestoreWorld.add, more_than=90
    )
    for point, world in runs:
        if find_osd_sets(world.store, LAB.name):
            world.remove()
        assert world.left() == world.before, f"stopped at call {point}"


def test_stopped_anywhere_a_removal_is_finished_by_the_next_one(tmp_path: RealPath) -> None:
    def added(number: int) -> FilestoreWorld:
        world = FilestoreWorld(tmp_path / str(number))
        world.add()
        return world

    for point, world in stopped_runs(added, FilestoreWorld.remove, more_than=60):
        if find_osd_sets(world.store, LAB.name):
            world.remove()
        assert world.left() == world.before, f"stopped at call {point}"


def test_a_newer_ceph_refuses_it_and_nothing_is_made(tmp_path: RealPath) -> None:
    world = FilestoreWorld(tmp_path, version="20.2.4")
    with pytest.raises(RefusedError, match=r"Ceph 20\.2\.4 has no FileStore") as caught:
        world.add()
    assert caught.value.code == "no-filestore"
    assert "--image bookworm" in caught.value.remedy
    assert world.left() == world.before


def test_a_store_whose_disk_has_ended_is_mounted_from_a_new_one(world: FilestoreWorld) -> None:
    world.add()
    host = world.machines()[0]
    host.kill_daemon("disk-h1-files.0")
    host.kill_daemon("osd-3")  # its XFS has failed
    world.add()
    world.require_whole()
    assert host.runs("disk-h1-files.0")
