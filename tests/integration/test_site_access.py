"""A lab's cluster taken for a site: all that Grampus asks of it, with the key that it asks for.

The commands run on this machine, inside a host image, and not on a host of the cluster.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grampus.ceph import (
    fullness,
    image_facts,
    image_notes,
    image_objects,
    journal_objects,
    scrubs,
    state_note,
)
from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_snapshots import ParentImage, RbdSnapshots
from grampus.ceph.mon_commands import ask_mons
from grampus.ceph.rbd import RbdImages
from grampus.ceph.state_log import StateLog, program_argv
from grampus.ceph.trash import RbdTrash
from grampus.core.clock import SystemClock
from grampus.core.errors import GrampusError
from grampus.sites.cluster_access import SiteClusterRunner
from grampus.volumes.decide_namespace import decide_capabilities
from grampus.volumes.model import VolumeRecord, VolumeSpec
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.machine import wait_for

POOL, IMAGE, CLONE = "databases", "shop.0a1b2c3d/shop", "copy.0a1b2c3e/copy"
RECORD = VolumeRecord(
    spec=VolumeSpec(name="shop", image=IMAGE, pool=POOL, size_bytes=64 << 20),
    ceph_user="grampus.prod.shop",
)


@pytest.fixture(scope="module")
def admin(lab: CommandLine) -> LabMachine:
    return LabMachine(lab, "h1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cluster's files are."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def client(lab: CommandLine, admin: LabMachine, files: Path) -> Iterator[CommandLine]:
    """Another home, which has the cluster's files and the lab's host images, but knows no lab."""
    home = files / "home"
    home.mkdir()
    (home / "images").symlink_to(lab.home / "images")
    client = CommandLine("prod", home)
    create = client.json("site", "caps", "prod")["create"].replace("\\\n", " ")
    (files / "keyring").write_text(admin.ok(*shlex.split(create)[:-2]))
    (files / "ceph.conf").write_text((admin.data / "etc-ceph" / "ceph.conf").read_text())
    yield client
    admin.ok("ceph", "auth", "rm", "client.grampus")


@pytest.fixture(scope="module")
def adopt(client: CommandLine, files: Path) -> Callable[..., Any]:
    def run(*options: str) -> Any:
        named = ("--conf", str(files / "ceph.conf"), "--keyring", str(files / "keyring"))
        return client.json("site", "adopt", "prod", *named, *options)

    return run


@pytest.fixture(scope="module")
def runner(client: CommandLine, adopt: Callable[..., Any]) -> Iterator[SiteClusterRunner]:
    site = adopt()["site"]
    root = client.home / "images" / site["image"] / "root"
    runner = SiteClusterRunner(root, client.home / "sites" / "prod", "grampus")
    yield runner
    runner.close()


def test_a_site_comes_and_goes(
    client: CommandLine, adopt: Callable[..., Any], admin: LabMachine
) -> None:
    assert {one["verdict"] for one in adopt("--dry-run")["checks"]} == {"ok"}
    assert not (client.home / "sites").exists()
    adopt("--addresses", "10.0.5.100-199")
    assert client.json("site", "list")["sites"][0]["addresses"] == "10.0.5.100-199"
    admin.ok("ceph", "config-key", "set", "grampus/prod/generation", "{}")
    client.ok("site", "forget", "prod", "--yes")
    assert not (client.home / "sites").exists()
    assert not [key for key in admin.ceph("config-key", "ls") if key.startswith("grampus/prod/")]


def test_a_missing_capability_is_named(
    client: CommandLine, adopt: Callable[..., Any], admin: LabMachine, files: Path
) -> None:
    caps = client.json("site", "caps", "prod")["caps"]
    lacking = {**caps, "osd": "profile rbd pool=other"}
    words = [word for pair in lacking.items() for word in pair]
    admin.ok("ceph", "auth", "caps", "client.grampus", *words)
    named = ("--conf", str(files / "ceph.conf"), "--keyring", str(files / "keyring"))
    refused = client.run("site", "adopt", "prod", *named)
    assert refused.code == 4
    assert "osd: profile rbd pool=databases" in refused.stderr
    # The command that it prints is enough.
    printed = refused.stderr[refused.stderr.index("ceph auth caps") :].replace("\\\n", " ")
    admin.ok(*shlex.split(printed))
    adopt()


def test_the_key_is_enough(runner: SiteClusterRunner) -> None:
    cluster = CephCluster(runner, image_pools=(POOL,))
    images = RbdImages(cluster, SystemClock())
    snapshots, trash = RbdSnapshots(cluster), RbdTrash(cluster, images)
    assert cluster.observe_status().osds > 0
    assert cluster.observe_pool(POOL).copies > 1
    cluster.require_writable(POOL)
    fullness.observe_pool_room(cluster, POOL)
    # Images, their metadata and their clients.
    images.ensure_image(POOL, IMAGE, 64 << 20, "id-1")
    images.ensure_size(POOL, IMAGE, 128 << 20)
    images.set_metadata(POOL, IMAGE, {"fact": "here"})
    assert images.metadata(POOL, IMAGE)["fact"] == "here"
    assert images.clients(POOL, IMAGE).locks == ()
    # The users of volumes, and their keys.
    user = RECORD.ceph_user
    cluster.ensure_client(user, decide_capabilities(RECORD), is_new=True)
    shared = RECORD.model_copy(update={"shares_with": (f"{POOL}/old.11112222", POOL)})
    keyring = cluster.ensure_client(user, decide_capabilities(shared))
    assert cluster.find_capabilities(user) == decide_capabilities(shared)
    assert cluster.ensure_pending_key(user) != keyring
    cluster.ensure_key_committed(user)
    # Snapshots, clones and the trash.
    snapshots.ensure(POOL, IMAGE, "s1")
    parent = ParentImage(pool=POOL, image=IMAGE, snapshot="s1", is_in_trash=False)
    snapshots.ensure_clone(parent, POOL, CLONE)
    assert len(snapshots.children(POOL, IMAGE)) == 1
    runner.run(["python3", "-c", image_objects.LIST_OBJECTS, POOL, CLONE])
    clone_id = trash.image_id(POOL, CLONE)
    trash.ensure_trashed(POOL, CLONE, clone_id, datetime.now(UTC) + timedelta(days=1))
    runner.run(
        ["rbd", "trash", "restore", "--pool", POOL, "--namespace", "copy.0a1b2c3e", clone_id]
    )
    runner.run(["rbd", "flatten", "--no-progress", f"{POOL}/{CLONE}"])
    with runner.reading(["rbd", "export", "--no-progress", f"{POOL}/{IMAGE}", "-"]) as stream:
        assert len(stream.read(1 << 30)) == 128 << 20
    runner.run(["python3", "-c", journal_objects.REMOVE_JOURNAL, POOL, "shop.0a1b2c3d", "none"])
    # Notes of the state.
    key, note = state_note.generation_key("prod"), '{"state": "a", "number": 1}'
    named = image_notes.ImageNote(pool=POOL, namespace="shop.0a1b2c3d", name="shop", text="{}")
    assert image_notes.write_notes(cluster, [named], (key, note)) == [named]
    # The lab's own images may be there, too.
    assert {IMAGE, CLONE} <= {image.name for image in image_notes.observe_images(cluster)}
    assert image_facts.observe_fact(cluster, "identity")
    assert state_note.find_state_note(cluster, "prod") is not None
    state_note.ensure_state_note_absent(cluster, "prod")
    # Fences.
    cluster.ensure_blocklisted("10.254.254.254:0/123")
    assert "10.254.254.254:0/123" in cluster.observe_blocklist()
    assert "client.grampus" in cluster.observe_client_entities().values()
    # Scrubs.
    group = f"{cluster.ask('osd pool ls', detail='detail')[0]['pool_id']}.0"
    cluster.ask("pg dump", to="mgr", dumpcontents=["pgs"])
    for kind in ("deep-scrub", "repair"):
        runner.run(["python3", "-c", scrubs.REQUEST_SCRUBS, kind, group])
    # Nothing is left.
    images.ensure_absent(POOL, CLONE)
    snapshots.ensure_absent(POOL, IMAGE, "s1")
    images.ensure_absent(POOL, IMAGE)
    images.ensure_namespace_absent(POOL, IMAGE)
    images.ensure_namespace_absent(POOL, CLONE)
    cluster.ensure_client_absent(user)


def test_the_log_of_a_state_takes_one_writer_at_a_time(
    runner: SiteClusterRunner, admin: LabMachine
) -> None:
    """Two machines, each with a connection of its own."""
    first, second = (
        StateLog("trial", lambda: runner.answering(program_argv(POOL, "trial"))) for _ in range(2)
    )
    with closing(first), closing(second):
        assert first.read(0) is None
        assert not first.append("log-1", 0, "nowhere")
        assert first.create("log-1")
        assert not second.create("log-2")
        assert first.append("log-1", 0, "one")
        assert not second.append("log-1", 0, "late")
        assert not second.append("log-2", 1, "of another log")
        assert second.append("log-1", 1, "zwei " + "\N{SNOWMAN}" * 100_000)
        part = first.read(0)
        assert part is not None
        assert (part.log, part.base, part.head) == ("log-1", 0, 2)
        assert [text[:5] for _, text in part.entries] == ["one", "zwei "]
        # A snapshot takes the place of entries, once.
        assert first.append("log-1", 2, "three")
        assert first.compact("log-1", 0, 2, "the first two")
        assert not second.compact("log-1", 0, 3, "late")
        part = second.read(0)
        assert part is not None
        assert (part.base, part.head, part.entries) == (2, 3, ((3, "three"),))
        assert second.snapshot(2) == "the first two"
        assert second.snapshot(3) is None
        assert second.compact("log-1", 2, 3, "all three")
        assert first.snapshot(2) is None
        # Signs of life change nothing of it.
        assert first.beats() == {}
        first.beat("a", "1")
        second.beat("b", "1")
        second.beat("b", "")
        assert second.beats() == {"a": "1"}
        assert first.append("log-1", 3, "four")
        first.remove()
        assert second.read(0) is None
        assert second.beats() == {}
    assert "grampus.trial." not in admin.ok("rados", "--pool", POOL, "ls")


def test_a_full_pool_takes_changes_of_the_state(
    runner: SiteClusterRunner, admin: LabMachine
) -> None:
    """Else nothing could be deleted from it."""

    def is_full() -> bool:
        found = admin.ceph("osd", "dump")["pools"]
        return any("full" in pool["flags_names"] for pool in found if pool["pool_name"] == POOL)

    log = StateLog("trial", lambda: runner.answering(program_argv(POOL, "trial")))
    with closing(log):
        assert log.create("log-1")
        # A pool without data is never full.
        admin.ok("sh", "-c", f"head -c 65536 /dev/zero | rados --pool {POOL} put filler -")
        admin.ok("ceph", "osd", "pool", "set-quota", POOL, "max_bytes", "1")
        try:
            wait_for(is_full, "the pool to be full")
            assert log.append("log-1", 0, "one " * 10_000)
            log.beat("a", "1")
            assert log.beats() == {"a": "1"}
            log.remove()
        finally:
            admin.ok("ceph", "osd", "pool", "set-quota", POOL, "max_bytes", "0")
            wait_for(lambda: not is_full(), "the pool to have room again")
            admin.ok("rados", "--pool", POOL, "rm", "filler")


def test_a_log_in_a_pool_of_others_names_the_missing_right(runner: SiteClusterRunner) -> None:
    log = StateLog("trial", lambda: runner.answering(program_argv(".mgr", "trial")))
    with closing(log), pytest.raises(GrampusError) as refused:
        log.read(0)
    assert refused.value.code == "state-denied"


VOLUME = {"mon": "profile rbd", "osd": "profile rbd pool=databases namespace=a"}


@pytest.mark.parametrize(
    ("prefix", "arguments"),
    [
        ("auth get", {"entity": "client.admin"}),
        ("auth get", {"entity": "client.grampus.other.shop"}),
        ("auth ls", {}),
        ("auth get-or-create", {"entity": "client.evil", "caps": VOLUME}),
        ("auth get-or-create", {"entity": "client.grampus.prod.a", "caps": {"mon": "allow *"}}),
        (
            "auth get-or-create",
            {"entity": "client.grampus.prod.a", "caps": {**VOLUME, "osd": "allow rwx"}},
        ),
        (
            "auth get-or-create",
            {"entity": "client.grampus.prod.a", "caps": {**VOLUME, "mon": "allow *"}},
        ),
        ("auth caps", {"entity": "client.grampus", "caps": {"mon": "allow *", "osd": "allow *"}}),
        ("auth rm", {"entity": "client.admin"}),
        ("config-key get", {"key": "mgr/telemetry/salt"}),
        ("config-key set", {"key": "grampus/other/generation", "val": "x"}),
        ("config set", {"who": "global", "name": "debug_ms", "value": "0"}),
        ("osd out", {"ids": ["0"]}),
        ("osd pool set", {"pool": POOL, "var": "size", "val": "2"}),
        ("osd blocklist", {"blocklistop": "rm", "addr": "10.254.254.254:0/123"}),
    ],
)
def test_and_opens_nothing_else(
    runner: SiteClusterRunner, prefix: str, arguments: dict[str, Any]
) -> None:
    caps = arguments.get("caps")
    if caps is not None:
        arguments = {**arguments, "caps": [word for pair in caps.items() for word in pair]}
    with pytest.raises(GrampusError, match="EACCES"):
        ask_mons(runner, prefix, **arguments)


def test_other_pools_are_closed(runner: SiteClusterRunner) -> None:
    with pytest.raises(GrampusError, match="not permitted"):
        runner.run(["rados", "--pool", ".mgr", "ls"])


def test_the_image_is_not_changed(runner: SiteClusterRunner) -> None:
    assert "Read-only" in runner.run(["touch", "/usr/x"], check=False).stderr
    assert "Read-only" in runner.run(["touch", "/etc/ceph/x"], check=False).stderr
    runner.run(["touch", "/tmp/x"])
    found = runner.run(["python3", "-c", "import os, json; print(json.dumps(dict(os.environ)))"])
    assert json.loads(found.stdout)["CEPH_ARGS"] == "--name client.grampus"
    assert not [
        mount
        for mount in Path("/proc/self/mounts").read_text().splitlines()
        if "/etc/ceph" in mount and "/images/" in mount
    ]


def test_a_running_command_keeps_no_file_system_of_this_machine_mounted(
    runner: SiteClusterRunner, tmp_path: Path
) -> None:
    """Who unmounts a file system can detach its device, whatever Grampus does meanwhile."""
    disk, mounted = tmp_path / "disk", tmp_path / "mounted"
    mounted.mkdir()
    with disk.open("wb") as file:
        file.truncate(64 << 20)

    def run(*argv: str) -> str:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    run("mke2fs", "-q", "-F", "-t", "ext4", str(disk))
    device = run("losetup", "--find", "--show", str(disk))
    try:
        run("mount", device, str(mounted))
        try:
            with runner.reading(["sh", "-c", "echo begun; exec sleep 5"]) as output:
                assert output.read(5) == b"begun"
                run("umount", str(mounted))
                # A device that is mounted anywhere refuses this (open(2)).
                os.close(os.open(device, os.O_RDWR | os.O_EXCL))
        finally:
            if mounted.is_mount():
                run("umount", str(mounted))
    finally:
        run("losetup", "--detach", device)
