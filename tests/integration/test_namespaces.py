"""Each volume in an RBD namespace of its own, and what its key opens: on a real cluster.

A volume's keyring is on a host while it is attached there. Whoever has it is tried here against
everything else in the pool.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import pytest

from grampus.ceph.image_notes import LIST_NOTES, RECORDS_KEY
from grampus.ceph.image_objects import LIST_OBJECTS
from grampus.ceph.namespaces import split_image
from grampus.ceph.placement_groups import PoolPlacement, decide_group
from grampus.ceph.pools import COUNT_IMAGES
from grampus.cli.work import work_on_volumes
from grampus.core.units import MIB
from tests.system.command_line import CommandLine, Finished
from tests.system.images import PoolContents, pool_contents
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attach, attached_volume

JOURNAL = ("--write-path", "journal")
OURS = {"left", "right", "mine", "theirs", "parent", "copy", "older", "newer"}
REFUSALS = ("Operation not permitted", "No such file or directory", "does not exist")


@dataclass(frozen=True)
class Place:
    """A volume's image, and its user."""

    pool: str
    namespace: str
    name: str
    user: str

    @property
    def image(self) -> str:
        return f"{self.pool}/{self.namespace}/{self.name}"


def place_of(document: dict[str, Any]) -> Place:
    namespace, name = split_image(document["image"])
    return Place(document["pool"], namespace, name, document["ceph_user"])


class Pair:
    """Two volumes attached to h1, the first with a journal and a file on it."""

    def __init__(
        self, lab: CommandLine, tag: str, left: dict[str, Any], right: dict[str, Any]
    ) -> None:
        self.tag = tag
        self.machine = LabMachine(lab, "h1")
        self.mount = Path(left["mount_path"])
        self.left, self.right = place_of(left), place_of(right)

    def as_right(self, program: str, *arguments: str) -> Finished:
        """What `rbd` or `rados` does on h1 with the second volume's key."""
        argv = (program, "--id", self.right.user, *arguments)
        return self.machine.run("timeout", "60", *argv)


@pytest.fixture(scope="module")
def pair(lab: CommandLine, tag: str) -> Iterator[Pair]:
    with (
        attached_volume(lab, "left", create=JOURNAL) as left,
        attached_volume(lab, "right") as right,
    ):
        write_durably(left, b"of the left one")
        yield Pair(lab, tag, left, right)


@pytest.fixture(scope="module")
def tag(lab: CommandLine) -> str:
    return lab.tag


def contents(tag: str) -> PoolContents:
    """What is in the pool of what these tests make, or could make."""
    found = pool_contents(tag)
    return PoolContents(*(tuple(filter(is_ours, kind)) for kind in astuple(found)))


def users(machine: LabMachine) -> set[str]:
    entities = (entry["entity"] for entry in machine.ceph("auth", "ls")["auth_dump"])
    return {entity for entity in entities if is_ours(entity)}


def is_ours(name: str) -> bool:
    return bool(OURS & set(re.split("[./]", name)))


def write_durably(volume: dict[str, Any], content: bytes) -> None:
    """A file on the volume that a snapshot taken from now on holds."""
    directory = Path(volume["mount_path"])
    (directory / "file").write_bytes(content)
    for path in (directory / "file", directory):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def osd_capability(machine: LabMachine, user: str) -> str:
    (entry,) = machine.ceph("auth", "get", f"client.{user}")
    return str(entry["caps"]["osd"])


def require_refused(finished: Finished) -> None:
    said = finished.stdout + finished.stderr
    assert finished.code != 0, said
    assert any(refusal in said for refusal in REFUSALS), said


def test_a_key_opens_its_own_image(pair: Pair) -> None:
    own = pair.right
    for argv in (("info", own.image), ("ls", f"{own.pool}/{own.namespace}"), ("status", own.image)):
        finished = pair.as_right("rbd", *argv)
        assert finished.code == 0, finished.stderr
    listed = pair.as_right("rados", "--pool", own.pool, "--namespace", own.namespace, "ls")
    assert "rbd_header." in listed.stdout


@pytest.mark.parametrize(
    "command",
    [
        "info {image}",
        "status {image}",
        "ls {place}",
        "ls {pool}",
        "trash ls {place}",
        "namespace ls {pool}",
        "export --no-progress {image} -",
        "image-meta list {image}",
        "lock list {image}",
        "snap create --no-progress {image}@theirs",
        "resize --no-progress --size 2G {image}",
        "rename {image} {place}/theirs",
        "trash mv {image}",
        "rm --no-progress {image}",
        "namespace remove {place}",
        "namespace create {pool}/mine",
        "create --size 64M {pool}/mine",
        "create --size 64M {place}/mine",
    ],
)
def test_a_key_neither_opens_nor_lists_nor_changes_anything_else(pair: Pair, command: str) -> None:
    left, before = pair.left, contents(pair.tag)
    place = f"{left.pool}/{left.namespace}"
    argv = command.format(image=left.image, place=place, pool=left.pool).split()
    require_refused(pair.as_right("rbd", *argv))
    assert contents(pair.tag) == before
    assert pair.machine.ok("rbd", "snap", "ls", left.image).strip() == ""
    assert (pair.mount / "file").read_bytes() == b"of the left one"


def test_a_key_reads_and_writes_no_object_of_another(pair: Pair) -> None:
    left = pair.left
    there = ("--pool", left.pool, "--namespace", left.namespace)
    names = pair.machine.ok("rados", *there, "ls").split()
    journal = [name for name in names if name.startswith("grampus_journal.")]
    assert journal, "its journal is in its namespace, beside the image"
    header = next(name for name in names if name.startswith("rbd_header."))
    for argv in (
        (*there, "ls"),
        ("--pool", left.pool, "ls", "--all"),
        (*there, "stat", header),
        (*there, "get", journal[0], "/dev/null"),
        (*there, "listomapvals", header),
        (*there, "put", "theirs", "/etc/hostname"),
        (*there, "rm", header),
        (*there, "listwatchers", header),
        ("--pool", left.pool, "ls"),
        ("--pool", left.pool, "stat", "rbd_directory"),
        ("--pool", left.pool, "listomapkeys", "rbd_namespace"),
    ):
        require_refused(pair.as_right("rados", *argv))
    assert pair.machine.ok("rados", *there, "ls").split().count(header) == 1


def test_a_key_is_no_administrators(pair: Pair) -> None:
    for argv in (("auth", "ls"), ("auth", "get", f"client.{pair.left.user}"), ("osd", "out", "0")):
        finished = pair.as_right("ceph", *argv)
        assert finished.code != 0, finished.stdout
        assert "access denied" in finished.stderr or "EACCES" in finished.stderr


def test_the_group_of_an_object_is_what_the_cluster_says(pair: Pair) -> None:
    """Scrubs and bit rot find what is in a namespace by it."""
    machine, left = pair.machine, pair.left
    pool = machine.ceph("osd", "pool", "get", left.pool, "all")
    placement = PoolPlacement(pool_id=pool["pool_id"], placement_groups=pool["pg_num"])
    for name in ("rbd_directory", "rbd_header.180c", "grampus_journal.180c.0001"):
        said = machine.ceph("osd", "map", left.pool, name, left.namespace)
        assert decide_group(placement, name, namespace=left.namespace) == said["pgid"]


def test_a_snapshot_from_outside_finds_volumed_and_everything_flushed(pair: Pair) -> None:
    """INV-4: the quiescing goes through the image's header, also in a namespace."""
    machine, image = pair.machine, pair.left.image
    machine.ok("rbd", "snap", "create", "--no-progress", f"{image}@outside")
    try:
        diff = machine.ok("rbd", "diff", "--format", "json", f"{image}@outside")
        assert diff.strip() != "[]"
    finally:
        machine.ok("rbd", "snap", "rm", "--no-progress", f"{image}@outside")


@contextmanager
def cloned(lab: CommandLine, source: str, name: str) -> Iterator[dict[str, Any]]:
    """A clone of `source`, attached to h2."""
    lab.ok("volume", "snapshot", "create", source, f"for-{name}")
    try:
        lab.ok("volume", "clone", f"{source}@for-{name}", name, *JOURNAL)
        try:
            yield attach(lab, name, "h2")
        finally:
            lab.ok("volume", "delete", name, "--yes")
    finally:
        lab.ok("volume", "snapshot", "delete", source, f"for-{name}", "--yes")


def test_a_clone_reads_its_parent_until_it_is_flattened(lab: CommandLine, tag: str) -> None:
    before = contents(tag)
    machine = LabMachine(lab, "h2")
    before_users = users(machine)
    with attached_volume(lab, "parent", create=JOURNAL) as parent:
        write_durably(parent, b"shared")
        origin = place_of(parent)
        with cloned(lab, "parent", "copy") as copy:
            file, own = Path(copy["mount_path"]) / "file", place_of(copy)
            assert file.read_bytes() == b"shared"
            reading = f"profile rbd-read-only pool={origin.pool} namespace={origin.namespace}"
            writing = f"profile rbd pool={own.pool} namespace={own.namespace}"
            assert osd_capability(machine, own.user) == f"{writing}, {reading}"
            with_key = ("timeout", "60", "rbd", "--id", own.user)
            assert machine.run(*with_key, "info", origin.image).code == 0
            refused = ("snap", "create", "--no-progress", f"{origin.image}@theirs")
            require_refused(machine.run(*with_key, *refused))
            file.write_bytes(b"its own")
            lab.ok("volume", "flatten", "copy")
            assert osd_capability(machine, own.user) == writing
            require_refused(machine.run(*with_key, "info", origin.image))
            assert file.read_bytes() == b"its own"
            lab.ok("volume", "detach", "copy")
            again = Path(attach(lab, "copy", "h2")["mount_path"])
            assert (again / "file").read_bytes() == b"its own"
    assert contents(tag) == before
    assert users(machine) == before_users


def test_a_snapshot_that_was_deleted_under_a_flattened_clone_leaves_nothing(
    lab: CommandLine,
) -> None:
    """The clone's key may only read there: what it cannot take away as it lets go goes as well."""
    with attached_volume(lab, "parent") as parent:
        machine, image = LabMachine(lab, "h1"), place_of(parent).image
        lab.ok("volume", "snapshot", "create", "parent", "passing")
        lab.ok("volume", "clone", "parent@passing", "copy")
        try:
            attach(lab, "copy", "h2")
            machine.ok("rbd", "snap", "rm", "--no-progress", f"{image}@passing")
            listed = machine.ok("rbd", "snap", "ls", "--all", "--format", "json", image)
            assert "trash" in listed
            # It has no name that it could be found by, and holds objects all the same.
            machine.ok("python3", "-c", LIST_OBJECTS, *image.split("/", maxsplit=1))
            lab.ok("volume", "flatten", "copy")
            listed = machine.ok("rbd", "snap", "ls", "--all", "--format", "json", image)
            assert listed.strip() in ("", "[]")
        finally:
            lab.ok("volume", "delete", "copy", "--yes")


def test_the_source_of_a_migration_in_a_trash_ends_no_listing(lab: CommandLine, tag: str) -> None:
    """python3-rbd 20.2 cannot list a trash with one."""
    machine, place = LabMachine(lab, "h1"), "databases/mine"
    machine.ok("rbd", "namespace", "create", place)
    try:
        machine.ok("rbd", "create", "--size", "64M", f"{place}/theirs")
        machine.ok("rbd", "migration", "prepare", f"{place}/theirs", f"{place}/moved")
        assert len(contents(tag).trash) == 1
        assert int(machine.ok("python3", "-c", COUNT_IMAGES, "databases")) >= 2
        listed = json.loads(machine.ok("python3", "-c", LIST_NOTES, RECORDS_KEY, "databases"))
        ours = [one["name"] for one in listed if one["name"].startswith("mine/")]
        assert ours == ["mine/moved"]
    finally:
        machine.run("rbd", "migration", "abort", "--no-progress", f"{place}/moved")
        machine.run("rbd", "rm", "--no-progress", f"{place}/theirs")
        machine.ok("rbd", "namespace", "remove", place)


def test_a_volume_of_an_older_release_goes_on_in_the_default_namespace(
    lab: CommandLine, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tag)
    monkeypatch.setenv("GRAMPUS_HOME", str(lab.home))
    with work_on_volumes(lab.lab) as (_, volumes):
        spec = volumes.plan_create("older", "databases", 512 * MIB, write_path="journal")
        volumes.create(spec.model_copy(update={"namespace": "default"}))
    machine = LabMachine(lab, "h1")
    try:
        user = lab.json("volume", "show", "older")["ceph_user"]
        whole_pool = ("mon", "profile rbd", "osd", "profile rbd pool=databases")
        machine.ok("ceph", "auth", "caps", f"client.{user}", *whole_pool)
        shown = attach(lab, "older", "h1")
        assert shown["image"] == "older"
        assert osd_capability(machine, user) == 'profile rbd pool=databases namespace=""'
        write_durably(shown, b"from before")
        with cloned(lab, "older", "newer") as newer:
            assert (Path(newer["mount_path"]) / "file").read_bytes() == b"from before"
            assert place_of(newer).namespace.startswith("newer.")
            lab.ok("volume", "flatten", "newer")
            refused = ("timeout", "60", "rbd", "--id", newer["ceph_user"], "info")
            require_refused(LabMachine(lab, "h2").run(*refused, "databases/older"))
            # Nor does the older one's key open what is in a namespace.
            own = ("timeout", "60", "rbd", "--id", user, "info")
            assert machine.run(*own, "databases/older").code == 0
            require_refused(machine.run(*own, place_of(newer).image))
        lab.ok("volume", "resize", "older", "--size", "1G")
        lab.ok("volume", "detach", "older")
        again = Path(attach(lab, "older", "h2")["mount_path"])
        assert (again / "file").read_bytes() == b"from before"
    finally:
        lab.ok("volume", "delete", "older", "--yes")
    assert contents(tag) == before
