"""What a lab host does without root: files, links, and who may be asked what."""

from __future__ import annotations

import gc
import json
import stat
import weakref
from pathlib import Path, PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError
from grampus.hosts.containers import Containers, observe_block_device, observe_machine_limits
from grampus.hosts.lab_host import LabFleet, LabHost, LabHostPlace
from grampus.hosts.port import CommandFailedError, CommandResult, HostUnreachableError
from tests.fakes.clock import FakeClock
from tests.fakes.programs import put_first_in_path

NO_SUCH_LINK = "grampus-no-link"
NO_CGROUP = "/grampus-no-such-group/x"


def make_host(directory: Path, name: str = "h1", *, link: str = NO_SUCH_LINK) -> LabHost:
    place = LabHostPlace(
        name=name,
        address="10.213.0.11",
        prefix_length=24,
        directory=directory / name,
        network_namespace=f"grampus-no-namespace-{name}",
        link=link,
        runc_root=directory / "runc",
        cgroup_path=NO_CGROUP,
    )
    return LabHost(place, lambda image: directory / (image or "image"), FakeClock())


def test_a_host_goes_with_its_last_user(tmp_path: Path) -> None:
    """Its command servers end with it: in a cycle they would wait for a collection."""
    host = make_host(tmp_path)
    ended = weakref.ref(host)
    gc.disable()
    try:
        del host
        assert ended() is None
    finally:
        gc.enable()


def test_file_is_written_with_its_mode_and_read_back(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    file = host.data_dir / "etc-ceph" / "ceph.client.x.keyring"
    assert host.read_file(file) is None
    host.write_file(file, "[client.x]\nkey = ä\n", mode=0o600)
    assert host.read_file(file) == "[client.x]\nkey = ä\n"
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    host.write_file(file, "new")
    assert host.read_file(file) == "new"
    assert host.read_file(file / "below-a-file") is None


def test_file_that_is_not_text_is_still_read(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    host.write_file(host.data_dir / "log", "")
    Path(host.data_dir / "log").write_bytes(b"ok \xff\xfe\n")
    assert host.read_file(host.data_dir / "log") == "ok \ufffd\ufffd\n"


def test_a_program_is_put_there_once_and_replaced_as_a_whole(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    source, target = tmp_path / "built", host.data_dir / "bin" / "volumed"
    source.write_bytes(b"\x7fELF one")
    host.ensure_copy(source, target, mode=0o755)
    first = Path(target).stat()
    assert stat.S_IMODE(first.st_mode) == 0o755
    host.ensure_copy(source, target, mode=0o755)
    assert Path(target).stat().st_ino == first.st_ino
    with Path(target).open("rb") as running:
        source.write_bytes(b"\x7fELF two")
        host.ensure_copy(source, target, mode=0o755)
        assert running.read() == b"\x7fELF one"  # whoever runs it keeps what was started
    assert Path(target).read_bytes() == b"\x7fELF two"
    assert [path.name for path in Path(target).parent.iterdir()] == ["volumed"]


def test_a_copy_gets_the_mode_that_it_shall_have(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    source, target = tmp_path / "built", host.data_dir / "bin" / "volumed"
    source.write_bytes(b"x")
    host.ensure_copy(source, target)
    host.ensure_copy(source, target, mode=0o755)
    assert stat.S_IMODE(Path(target).stat().st_mode) == 0o755


def test_what_is_not_there_cannot_be_copied(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    with pytest.raises(GrampusError, match="The file") as caught:
        host.ensure_copy(tmp_path / "none", host.data_dir / "x")
    assert caught.value.code == "no-such-file"
    (tmp_path / "built").touch()
    with pytest.raises(GrampusError, match="outside the data directory"):
        host.ensure_copy(tmp_path / "built", PurePosixPath(tmp_path / "x"))


@pytest.mark.parametrize(
    "path",
    [
        "{root}/outside",
        "{root}/h1/daemons/osd-0/config",
        "{root}/h1/data/../../outside",
        "{root}/h1/data/a/../../daemons/x",
        "{root}/h1/database/x",
        "relative",
    ],
)
def test_nothing_is_written_outside_the_data_directory(tmp_path: Path, path: str) -> None:
    host = make_host(tmp_path)
    with pytest.raises(GrampusError, match="outside the data directory of h1"):
        host.write_file(PurePosixPath(path.format(root=tmp_path)), "x")
    assert list(tmp_path.iterdir()) == []


def test_cut_off_host_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    assert not host.is_linked()
    for act in (
        lambda: host.run(["true"]),
        lambda: host.spawn(["true"]),
        lambda: host.terminal_argv(["mysql"], daemon="mysqld-shop", tty=True),
    ):
        with pytest.raises(HostUnreachableError, match="h1 cannot be reached") as caught:
            act()
        assert "lab fault heal" in caught.value.remedy


def test_link_that_is_up_counts_as_linked(tmp_path: Path) -> None:
    assert make_host(tmp_path, link="lo").is_linked()


def test_usage_leaves_out_daemons_without_a_control_group(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    assert host.observe_usage() == {}
    assert host.observe_cpu_waits(["osd-0"]) == {}
    (tmp_path / "h1" / "daemons" / "osd-0").mkdir(parents=True)
    assert host.observe_usage() == {}


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        (None, ""),
        (b"", ""),
        (b"one\ntwo\nthree\n", "two\nthree"),
        (b"bad \xff byte\n", "bad \ufffd byte"),
        (b"x" * 200_000 + b"\nlast\n", "x" * (64 * 1024 - 6) + "\nlast"),
    ],
)
def test_end_of_a_daemons_log(tmp_path: Path, log: bytes | None, shown: str) -> None:
    directory = tmp_path / "h1" / "daemons" / "osd-0"
    directory.mkdir(parents=True)
    if log is not None:
        (directory / "log").write_bytes(log)
    assert make_host(tmp_path).daemon_log("osd-0", last_lines=2) == shown


def test_terminal_runs_inside_as_the_daemons_user_and_dies_with_us(tmp_path: Path) -> None:
    containers = Containers(
        directory=tmp_path / "h1" / "daemons",
        runc_root=tmp_path / "runc",
        prefix="h1",
        hostname="h1",
        network_namespace="/run/netns/grampus-no-namespace-h1",
        cgroup_path=NO_CGROUP,
        image_root=lambda image: tmp_path,
        clock=FakeClock(),
    )
    bundle = tmp_path / "h1" / "daemons" / "mysqld-shop" / "bundle"
    bundle.mkdir(parents=True)
    config = {"process": {"user": {"uid": 970, "gid": 971}}}
    (bundle / "config.json").write_text(json.dumps(config))
    argv = containers.exec_argv("mysqld-shop", ["mysql", "-e", "select 1; --"], tty=True)
    assert argv[:3] == ["setpriv", "--pdeathsig", "TERM"]
    assert argv[3:] == [
        *("runc", "--root", str(tmp_path / "runc"), "exec", "--tty", "--user", "970:971"),
        *("h1.mysqld-shop", "mysql", "-e", "select 1; --"),
    ]
    assert "--tty" not in containers.exec_argv("mysqld-shop", ["mysql"])
    with pytest.raises(GrampusError, match="does not exist on h1") as caught:
        containers.exec_argv("mysqld-none", ["mysql"])
    assert caught.value.code == "daemon-absent"


def test_fleet_is_sorted_and_suggests_a_name(tmp_path: Path) -> None:
    hosts = [make_host(tmp_path, name) for name in ("h2", "h10", "h1")]
    fleet = LabFleet(hosts, ["10.213.0.100", "10.213.0.101"])
    assert [host.name for host in fleet.hosts()] == ["h1", "h10", "h2"]
    assert fleet.host("h2") is hosts[0]
    assert not fleet.is_reachable("h1")
    assert list(fleet.database_addresses()) == ["10.213.0.100", "10.213.0.101"]
    with pytest.raises(NotFoundError, match="There is no host named 'h3'"):
        fleet.host("h3")


def test_machine_limits_can_be_observed() -> None:
    limits = observe_machine_limits()
    assert limits.max_open_files > 0
    assert limits.locked_memory_bytes >= -1
    assert 0 <= limits.capability_mask < 1 << 64


def test_only_block_devices_are_block_devices(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, sentence in (
        (tmp_path / "file", "is not a block device"),
        (Path("/dev/null"), "is not a block device"),
        (tmp_path / "none", "The block device"),
    ):
        with pytest.raises(GrampusError, match=sentence):
            observe_block_device(str(path))


ENDED = "it ended with code 2"


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        ("", "no such pool\n", f"no such pool ({ENDED})"),
        ("only stdout\n", "", f"only stdout ({ENDED})"),
        ("", "", ENDED),
        ("", "1\n2\n3\n4\n", f"2 3 4 ({ENDED})"),
        ("", "It is a sentence.\n", f"It is a sentence ({ENDED})"),
    ],
)
def test_failed_command_says_the_last_words_and_not_all_its_arguments(
    stdout: str, stderr: str, said: str
) -> None:
    result = CommandResult(("rbd", "map", "pool/image", "--id", "user"), 2, stdout, stderr)
    error = CommandFailedError("h1", result)
    assert error.problem == f"`rbd map` failed on h1: {said}."
    assert "`grampus host list`" in error.remedy
    assert error.result is result


def test_a_container_that_runc_cannot_tell_of_is_not_taken_for_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runc = "#!/bin/sh\necho 'cannot allocate memory' >&2\nexit 1\n"
    put_first_in_path(tmp_path, {"runc": runc}, monkeypatch)
    daemon = tmp_path / "h1" / "daemons" / "mysqld-shop"
    daemon.mkdir(parents=True)
    containers = Containers(
        directory=daemon.parent,
        runc_root=tmp_path / "runc",
        prefix="h1",
        hostname="h1",
        network_namespace="/run/netns/grampus-no-namespace-h1",
        cgroup_path=NO_CGROUP,
        image_root=lambda image: tmp_path,
        clock=FakeClock(),
    )
    assert not containers.is_running("mysqld-shop")
    half = tmp_path / "runc" / "h1.mysqld-shop"
    half.mkdir(parents=True)
    assert not containers.is_running("mysqld-shop")  # runc was killed before it had made it
    (half / "state.json").write_text("not to be read by us")
    with pytest.raises(CommandFailedError, match="cannot allocate memory"):
        containers.is_running("mysqld-shop")
