from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grampus.hosts.idmapped_mounts import explain_unmapped
from grampus.hosts.oci_config import (
    CAPABILITY_NAMES,
    DAEMON_CAPABILITIES,
    BlockDevice,
    MachineLimits,
    allowed_capabilities,
    render_new_limits,
    render_oci_config,
)
from grampus.hosts.port import Bind, BlockLimit, DaemonSpec, Limits

ALL_CAPABILITIES = (1 << 41) - 1  # Linux 6: 41 of them
NO_RAWIO_NO_RESOURCE = ALL_CAPABILITIES & ~(1 << 17) & ~(1 << 24)
MACHINE = MachineLimits(ALL_CAPABILITIES, max_open_files=20_000, locked_memory_bytes=-1)
LOOP3 = BlockDevice("/dev/loop3", 7, 3)
LOOP4 = BlockDevice("/dev/loop4", 7, 4)
DEVICES = {device.path: device for device in (LOOP3, LOOP4)}
OSD = DaemonSpec(
    name="osd-0",
    argv=("ceph-osd", "-f", "--id", "0"),
    binds=(
        Bind("/srv/h1/etc-ceph", "/etc/ceph", read_only=True),
        Bind("/srv/h1/var-lib-ceph", "/var/lib/ceph"),
    ),
    env={"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES": "134217728"},
    devices=("/dev/loop3",),
    limits=Limits(
        cpus=1.5,
        memory_bytes=2**30,
        block=(
            BlockLimit("/dev/loop3", read_iops=1000, write_iops=500),
            BlockLimit("/dev/loop4", read_bytes_per_s=10**8),
        ),
    ),
)
VOLUME_SERVER = DaemonSpec(
    name="volume-shop",
    argv=("qemu-storage-daemon",),
    binds=(Bind("/srv/h1/data", "/srv/h1/data", shared=True),),
    privileged=True,
    devices=("/dev/loop3",),
)
MYSQLD = DaemonSpec(name="mysqld-shop", argv=("mysqld",), uid=970, gid=971)
EVERY_SPEC = [OSD, VOLUME_SERVER, MYSQLD, replace(OSD, privileged=True, uid=64045, gid=64045)]
EVERY_MACHINE = [
    MACHINE,
    MachineLimits(NO_RAWIO_NO_RESOURCE, max_open_files=1024, locked_memory_bytes=8 * 2**20),
    MachineLimits(0, max_open_files=20_000, locked_memory_bytes=0),
]


def render(
    spec: DaemonSpec, machine: MachineLimits = MACHINE, owners_note: str | None = None
) -> dict[str, Any]:
    return render_oci_config(
        spec,
        root="/srv/h1/daemons/x/rootfs",
        hostname="h1",
        network_namespace="/run/netns/grampus-3f2a0-h1",
        cgroup_path="/grampus/3f2a0/h1/x",
        machine=machine,
        devices=DEVICES,
        owners_note=owners_note,
    )


def test_a_bare_daemon_is_in_its_hosts_namespaces_and_keeps_its_own_files() -> None:
    spec = replace(MYSQLD, bare=True)
    config = render_oci_config(
        spec,
        root="/srv/h1/daemons/x/rootfs",
        hostname="h1",
        network_namespace="/run/netns/grampus-3f2a0-h1",
        cgroup_path="/grampus/3f2a0/h1/x",
        machine=MACHINE,
        devices=DEVICES,
        host_pid=4711,
    )
    found = {one["type"]: one.get("path") for one in config["linux"]["namespaces"]}
    assert found == {
        "pid": "/proc/4711/ns/pid",
        "ipc": "/proc/4711/ns/ipc",
        "uts": "/proc/4711/ns/uts",
        "mount": None,
        "network": "/run/netns/grampus-3f2a0-h1",
    }
    assert "memory" not in config["linux"]["resources"]
    assert "cpu" not in config["linux"]["resources"]
    assert config["linux"]["maskedPaths"] == []
    capabilities = config["process"]["capabilities"]["bounding"]
    assert capabilities == list(allowed_capabilities(MACHINE.capability_mask))
    contained = render(MYSQLD)
    assert config["mounts"] == contained["mounts"]
    assert config["process"]["user"] == contained["process"]["user"]


OWNED = replace(
    MYSQLD,
    binds=(
        Bind("/srv/h1/databases/shop", "/srv/h1/databases/shop", read_only=True, owner=64050),
        Bind("/srv/h1/volumes/shop", "/var/lib/mysql", owner=64050),
        Bind("/etc/ceph", "/etc/ceph"),
    ),
    devices=("/dev/loop3",),
)


def test_files_on_disk_become_the_daemons_own_before_it_starts() -> None:
    config = render(OWNED, owners_note="/srv/h1/daemons/x/bundle/note")
    (hook,) = config["hooks"].pop("createContainer")
    assert config["hooks"] == {}
    assert hook["path"] == hook["args"][0] == sys.executable
    program = hook["args"].index(next(one for one in hook["args"] if one.endswith(".py")))
    assert Path(hook["args"][program]).is_file()
    assert hook["args"][program + 1 :] == [
        *("64050", "970", "971", "/srv/h1/daemons/x/bundle/note"),
        "/srv/h1/daemons/x/rootfs/srv/h1/databases/shop",
        "/srv/h1/daemons/x/rootfs/var/lib/mysql",
    ]
    assert config["process"]["user"] == {"uid": 970, "gid": 971}


def test_where_owners_cannot_be_mapped_a_daemon_runs_as_the_owner_of_its_files() -> None:
    config = render(OWNED)
    assert "hooks" not in config
    assert config["process"]["user"] == {"uid": 64050, "gid": 64050}
    assert [(one["uid"], one["gid"]) for one in config["linux"]["devices"]] == [(64050, 64050)]


@pytest.mark.parametrize("spec", [OSD, MYSQLD, replace(OWNED, uid=64050, gid=64050)])
def test_a_daemon_without_other_peoples_files_needs_no_mapping(spec: DaemonSpec) -> None:
    config = render(spec, owners_note="/note")
    assert "hooks" not in config
    assert config["process"]["user"] == {"uid": spec.uid, "gid": spec.gid}


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("22 mount_setattr: Invalid argument\n", "mount_setattr: Invalid argument"),
        ("38 open_tree: Function not implemented\n", "open_tree: Function not implemented"),
        ("28 unshare: No space left on device\n", "unshare: No space left on device"),
        ("1 mount_setattr: Operation not permitted\n", "mount_setattr: Operation not permitted"),
        ("1 uid_map: Operation not permitted\n", "uid_map: Operation not permitted"),
        ("22 umount2: Invalid argument\n", None),
        ("22 move_mount: Invalid argument\n", None),
        ("5 open_tree: Input/output error\n", None),
        ("2 open_tree: No such file or directory\n", None),
        ("", None),
    ],
)
def test_only_what_a_machine_cannot_do_counts_as_that(note: str, said: str | None) -> None:
    assert explain_unmapped(note) == said


def mount_at(config: dict[str, Any], destination: str) -> dict[str, Any]:
    (found,) = [m for m in config["mounts"] if m["destination"] == destination]
    return dict(found)


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ()),
        (1, ("CAP_CHOWN",)),
        (1 << 21, ("CAP_SYS_ADMIN",)),
        (0b1010_0000, ("CAP_KILL", "CAP_SETUID")),
        (1 << 24 | 1 << 27, ("CAP_SYS_RESOURCE", "CAP_MKNOD")),
        (1 << 38 | 1 << 40, ()),  # too new to have a name here
        (ALL_CAPABILITIES, tuple(f"CAP_{name}" for name in CAPABILITY_NAMES)),
    ],
)
def test_capabilities_of_a_mask(mask: int, names: tuple[str, ...]) -> None:
    assert allowed_capabilities(mask) == names


@pytest.mark.parametrize(("spec", "machine"), list(itertools.product(EVERY_SPEC, EVERY_MACHINE)))
def test_what_holds_for_every_daemon(spec: DaemonSpec, machine: MachineLimits) -> None:
    config = render(spec, machine)
    assert json.loads(json.dumps(config)) == config
    process, linux = config["process"], config["linux"]
    assert process["args"] == list(spec.argv)
    assert process["user"] == {"uid": spec.uid, "gid": spec.gid}
    assert process["terminal"] is False
    bounding = set(allowed_capabilities(machine.capability_mask))
    for kind in ("bounding", "effective", "permitted", "inheritable"):
        # runc refuses to raise what the machine does not have.
        assert set(process["capabilities"][kind]) <= bounding
    assert config["hostname"] == "h1"
    assert config["root"]["path"] == "/srv/h1/daemons/x/rootfs"
    assert linux["cgroupsPath"] == "/grampus/3f2a0/h1/x"
    kinds = {namespace["type"]: namespace.get("path") for namespace in linux["namespaces"]}
    assert kinds == {
        "pid": None,
        "mount": None,
        "ipc": None,
        "uts": None,
        "network": "/run/netns/grampus-3f2a0-h1",
    }
    for limit in process["rlimits"]:
        assert limit["soft"] == limit["hard"]
    assert {"type": "RLIMIT_CORE", "hard": 0, "soft": 0} in process["rlimits"]
    assert mount_at(config, "/proc")["type"] == "proc"
    destinations = [mount["destination"] for mount in config["mounts"]]
    assert len(destinations) == len(set(destinations))


@pytest.mark.parametrize("spec", [OSD, MYSQLD])
@pytest.mark.parametrize("machine", EVERY_MACHINE)
def test_ordinary_daemon_gets_no_more_than_it_needs(
    spec: DaemonSpec, machine: MachineLimits
) -> None:
    config = render(spec, machine)
    process, linux = config["process"], config["linux"]
    assert process["noNewPrivileges"] is True
    assert set(process["capabilities"]["bounding"]) <= set(DAEMON_CAPABILITIES)
    assert not {"CAP_SYS_ADMIN", "CAP_SYS_RAWIO", "CAP_MKNOD", "CAP_NET_ADMIN"} & set(
        process["capabilities"]["bounding"]
    )
    rules = linux["resources"]["devices"]
    assert rules[0] == {"allow": False, "access": "rwm"}
    own = [DEVICES[path] for path in spec.devices]
    assert rules[1:] == [
        {"allow": True, "type": "b", "major": d.major, "minor": d.minor, "access": "rw"}
        for d in own
    ]
    assert [device["path"] for device in linux["devices"]] == list(spec.devices)
    assert all(device["fileMode"] == 0o600 for device in linux["devices"])
    assert "/proc/sysrq-trigger" in linux["maskedPaths"]
    assert mount_at(config, "/dev")["type"] == "tmpfs"
    assert "ro" in mount_at(config, "/sys")["options"]
    assert linux["rootfsPropagation"] == "rprivate"
    (refused,) = linux["seccomp"]["syscalls"]
    assert linux["seccomp"]["defaultAction"] == "SCMP_ACT_ALLOW"
    assert refused["action"] == "SCMP_ACT_ERRNO"
    assert {"mount", "ptrace", "bpf", "keyctl", "unshare", "kexec_load"} <= set(refused["names"])


def test_privileged_daemon_sees_the_hosts_devices() -> None:
    config = render(VOLUME_SERVER)
    process, linux = config["process"], config["linux"]
    assert process["noNewPrivileges"] is False
    assert "CAP_SYS_ADMIN" in process["capabilities"]["effective"]
    assert linux["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert linux["devices"] == []  # they are in the /dev that it is given
    assert "seccomp" not in linux  # it mounts
    assert linux["maskedPaths"] == []
    for place in ("/dev", "/sys"):
        assert mount_at(config, place)["source"] == place
        assert mount_at(config, place)["options"] == ["rbind", "rw"]


def test_device_that_is_only_limited_cannot_be_opened() -> None:
    rules = render(OSD)["linux"]["resources"]["devices"]
    assert {rule.get("minor") for rule in rules} == {None, LOOP3.minor}


@pytest.mark.parametrize(
    ("limits", "resources"),
    [
        (Limits(), {}),
        (Limits(cpus=2), {"cpu": {"period": 100_000, "quota": 200_000}}),
        (Limits(cpus=0.25), {"cpu": {"period": 100_000, "quota": 25_000}}),
        (Limits(cpus=0.001), {"cpu": {"period": 100_000, "quota": 1000}}),  # the kernel's least
        (Limits(memory_bytes=2**30), {"memory": {"limit": 2**30}}),
        (Limits(block=(BlockLimit("/dev/loop3"),)), {}),
        (
            Limits(
                block=(
                    BlockLimit("/dev/loop3", 1, 2, 3, 4),
                    BlockLimit("/dev/loop4", write_iops=9),
                )
            ),
            {
                "blockIO": {
                    "throttleReadIOPSDevice": [{"major": 7, "minor": 3, "rate": 1}],
                    "throttleWriteIOPSDevice": [
                        {"major": 7, "minor": 3, "rate": 2},
                        {"major": 7, "minor": 4, "rate": 9},
                    ],
                    "throttleReadBpsDevice": [{"major": 7, "minor": 3, "rate": 3}],
                    "throttleWriteBpsDevice": [{"major": 7, "minor": 3, "rate": 4}],
                }
            },
        ),
    ],
)
@pytest.mark.parametrize("privileged", [False, True])
def test_limits(limits: Limits, resources: dict[str, Any], privileged: bool) -> None:
    rendered = render(replace(MYSQLD, limits=limits, privileged=privileged))
    rendered["linux"]["resources"].pop("devices")
    assert rendered["linux"]["resources"] == resources


@pytest.mark.parametrize(
    ("bind", "options"),
    [
        (Bind("/a", "/b"), ["rbind", "rw", "rslave"]),
        (Bind("/a", "/b", read_only=True), ["rbind", "ro", "rslave"]),
        (Bind("/a", "/b", shared=True), ["rbind", "rw", "rshared"]),
    ],
)
def test_binds(bind: Bind, options: list[str]) -> None:
    config = render(replace(MYSQLD, binds=(bind,)))
    assert config["mounts"][-1] == {
        "destination": "/b",
        "type": "bind",
        "source": "/a",
        "options": options,
    }
    # Without a shared root nothing mounted inside could be seen outside.
    propagation = "rshared" if bind.shared else "rprivate"
    assert config["linux"]["rootfsPropagation"] == propagation


def test_binds_come_after_the_system_mounts_that_they_may_lie_in() -> None:
    config = render(replace(MYSQLD, binds=(Bind("/srv/run", "/run/ceph"),)))
    destinations = [mount["destination"] for mount in config["mounts"]]
    assert destinations.index("/run") < destinations.index("/run/ceph")


@pytest.mark.parametrize(
    ("locked_memory_bytes", "kinds"),
    [
        (-1, ["RLIMIT_NOFILE", "RLIMIT_CORE"]),
        (65536, ["RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_MEMLOCK"]),
    ],
)
def test_resource_limits_are_the_machines_own(locked_memory_bytes: int, kinds: list[str]) -> None:
    machine = MachineLimits(ALL_CAPABILITIES, 20_000, locked_memory_bytes)
    limits = render(MYSQLD, machine)["process"]["rlimits"]
    assert [limit["type"] for limit in limits] == kinds
    assert limits[0]["hard"] == 20_000
    assert limits[-1]["hard"] == (0 if locked_memory_bytes < 0 else 65536)


def test_environment_can_be_added_to_and_replaced() -> None:
    environment = render(replace(MYSQLD, env={"LANG": "C", "A": "b=c"}))["process"]["env"]
    assert "LANG=C" in environment
    assert "LANG=C.UTF-8" not in environment
    assert "A=b=c" in environment
    assert any(entry.startswith("PATH=") for entry in environment)


def test_device_without_a_number_is_a_defect_of_the_caller() -> None:
    with pytest.raises(KeyError):
        render(replace(MYSQLD, devices=("/dev/sda",)))


@pytest.mark.parametrize(
    ("limits", "quota", "memory"),
    [
        (Limits(cpus=0.5, memory_bytes=2**29), 50_000, 2**29),
        (Limits(cpus=2.0), 200_000, -1),
        (Limits(cpus=0.001), 1_000, -1),  # the kernel takes no quota below 1 ms
        (Limits(), -1, -1),
    ],
)
def test_new_limits_of_a_running_container(limits: Limits, quota: int, memory: int) -> None:
    new = render_new_limits(limits)
    assert new["cpu"] == {"period": 100_000, "quota": quota}
    assert new["memory"]["limit"] == memory
    assert new["memory"]["checkBeforeUpdate"], "else a version 2 kernel ends processes"
