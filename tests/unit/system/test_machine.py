from __future__ import annotations

from pathlib import Path

import pytest

from grampus.hosts.loop_devices import AttachedLoop
from grampus.lab.model import lab_tag
from grampus.state.home import Home
from tests.system.machine import (
    Thing,
    loop_things,
    owner_of,
    settled_loops,
    tag_of,
    without_others,
)

HOME = "/srv/grampus"
MAIN = lab_tag(Home(Path(HOME)), "main")
OTHER = "0a1b2"
OF_TEST = "/tmp/pytest-of-root/pytest-7/test_labs0/home"


@pytest.mark.parametrize(
    ("clue", "owner"),
    [
        (f"{HOME}/labs/main/hosts/h1/daemons/osd-0/rootfs", MAIN),
        (f"grampus/{OTHER}/osd-0 {HOME}/labs/main/hosts/h2/data/osd/0.img", MAIN),
        (f"{HOME}/clusters/5e2f/volumes/x", "cluster 5e2f"),
        (f"{HOME}/images/.building-sid-0123456789ab-77/root/proc", "an image"),
        (f"grampus/{OTHER}/volume-shop /image", OTHER),
        ("/dev/shm/grampus-test-k3x9/disk", "a test"),
        ("/dev/shm/grampus-test-k3x9/disk /disk", "a test"),
        ("/tmp/pytest-of-root/pytest-7/test_unmounts0/disk", "a test"),
        ("/tmp/pytest-of-root/pytest-7/test_unmounts0/mounted", "a test"),
        (f"{OF_TEST}/labs/main/hosts/h1/data/osd/0.img", lab_tag(Home(Path(OF_TEST)), "main")),
        (f"gr-{OTHER}", OTHER),
        (f"gr-{OTHER}-h3", OTHER),
        (f"grampus-{OTHER}-h1", OTHER),
        (f"/run/grampus/{OTHER}/runc/h1.host", OTHER),
        (f"/sys/fs/cgroup/memory/grampus/{OTHER}/h1/mon-h1", OTHER),
        (f'{{"dst": "10.213.0.0/24", "dev": "gr-{OTHER}", "flags": []}}', OTHER),
        (f"9:pids:/grampus/{OTHER}/h1/osd-1\n0::/\nceph-osd --foreground --id 1 ", OTHER),
        (f"9:pids:/\n0::/\nrunc --root /run/grampus/{OTHER}/runc exec h1.host true ", OTHER),
        ("9:pids:/\n0::/\nceph-osd --foreground --id 1 ", None),
        ("/run/grampus/made-run-netns", None),
        ("/srv/left/mount", None),
        ("gr-0a1b2c", None),
        ("ifb0", None),
    ],
)
def test_whose_a_thing_is(clue: str, owner: str | None) -> None:
    assert owner_of(clue) == owner


def names(*texts: str, labs: tuple[str, ...] = (MAIN, OTHER), stays_up: bool = False) -> list[str]:
    return without_others([Thing(text, text) for text in texts], MAIN, labs, stays_up=stays_up)


def test_what_is_the_labs_or_nobodys_counts_and_what_is_anothers_does_not() -> None:
    assert names(f"gr-{MAIN}", f"gr-{OTHER}", "gr-left") == [f"gr-{MAIN}", "gr-left"]


@pytest.mark.parametrize(
    "shared",
    ["/run/netns", "/run/grampus/made-run-netns", "/sys/fs/cgroup/pids/grampus"],
)
def test_what_labs_share_counts_when_there_is_no_other(shared: str) -> None:
    assert names(shared) == []
    assert names(shared, labs=(MAIN,)) == [shared]
    assert names(shared, labs=()) == [shared]


@pytest.mark.parametrize("shared", ["/run/netns", "/sys/fs/cgroup/pids/grampus"])
def test_another_lab_that_ends_changes_no_inventory_of_a_lab_that_stays_up(shared: str) -> None:
    beside, alone = (names(shared, labs=labs, stays_up=True) for labs in ((MAIN, OTHER), (MAIN,)))
    assert beside == alone == []


def test_a_lab_has_its_tag_before_it_is_there(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    assert tag_of(tmp_path / "link", "main") == lab_tag(Home(home), "main")


def dead(device: str, file: str = "/") -> AttachedLoop:
    return AttachedLoop(device, file, None, None)


@pytest.mark.parametrize(
    ("loop", "owner"),
    [
        (AttachedLoop("/dev/loop7", "/osd/0.img", f"grampus/{OTHER}/osd-0", (8, 1)), OTHER),
        (AttachedLoop("/dev/loop7", "/disk", "/dev/shm/grampus-test-k3x9/disk", (8, 1)), "a test"),
        (dead("/dev/loop7"), MAIN),
        (dead("/dev/loop6"), None),
    ],
)
def test_a_device_whose_server_has_died_is_known_by_its_mount(
    loop: AttachedLoop, owner: str | None
) -> None:
    mounts = [("/", "/dev/vda"), (f"{HOME}/labs/main/hosts/h1/data/volumes/shop", "/dev/loop7")]
    [(thing, found)] = loop_things([loop], [] if loop.reference else mounts)
    assert found == loop
    assert owner_of(thing.clue) == owner


def test_devices_of_dead_servers_that_nobody_can_name_are_waited_for() -> None:
    alive = AttachedLoop("/dev/loop1", "/osd/0.img", f"grampus/{MAIN}/osd-0", (8, 1))
    seen = [[alive, dead("/dev/loop7")], [alive]]
    settled = settled_loops(lambda: loop_things(seen.pop(0), []))
    assert [thing.name for thing in settled] == ["loop1"]
    stays = settled_loops(lambda: loop_things([dead("/dev/loop7")], []), timeout_s=0)
    assert [thing.name for thing in stays] == ["loop7"]
