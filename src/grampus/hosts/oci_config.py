"""OCI runtime configuration of a daemon: pure, from what the daemon needs to a document.

Source: OCI runtime specification 1.0.2, config.md and config-linux.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grampus.hosts.idmapped_mounts import decide_user, mapped_binds, render_hooks
from grampus.hosts.port import BlockLimit, DaemonSpec, Limits
from grampus.hosts.seccomp import render_seccomp

CPU_PERIOD_US = 100_000
STOP_TIMEOUT = "grampus.stop-timeout-s"  # an annotation, which runc does not read
# What a daemon keeps when it is not privileged: enough to own its files and change user.
DAEMON_CAPABILITIES = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
)
# capabilities(7), by bit number.
CAPABILITY_NAMES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
)
_HOSTS_NAMESPACES = ("pid", "ipc", "uts")
_MASKED_PATHS = ("/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list")


@dataclass(frozen=True)
class MachineLimits:
    """What this machine lets a container have."""

    capability_mask: int  # bounding set of our own process, one bit a capability
    max_open_files: int  # hard limit
    locked_memory_bytes: int  # hard limit; -1 is unlimited


@dataclass(frozen=True)
class BlockDevice:
    """A block device and its number."""

    path: str
    major: int
    minor: int


def allowed_capabilities(capability_mask: int) -> tuple[str, ...]:
    """Names of the capabilities in a bounding set, as the OCI configuration spells them."""
    return tuple(
        f"CAP_{name}" for bit, name in enumerate(CAPABILITY_NAMES) if capability_mask >> bit & 1
    )


def render_oci_config(
    spec: DaemonSpec,
    *,
    root: str,
    hostname: str,
    network_namespace: str,
    cgroup_path: str,
    machine: MachineLimits,
    devices: dict[str, BlockDevice],
    host_pid: int | None = None,
    owners_note: str | None = None,
) -> dict[str, Any]:
    """The `config.json` of a daemon's bundle.

    `devices` maps each path in `spec.devices` and in the block limits to its numbers; `host_pid` is
    a process in the host's own namespaces, which a bare daemon shares. `owners_note` is a file that
    says why owners of files cannot be mapped, if they cannot; None: that is known, so the daemon
    runs as the owner of its files.
    """
    uid, gid = decide_user(spec, maps_owners=owners_note is not None)
    shared = _HOSTS_NAMESPACES if spec.bare else ()
    bounding = allowed_capabilities(machine.capability_mask)
    capabilities = (
        bounding
        if spec.privileged or spec.bare
        else tuple(c for c in DAEMON_CAPABILITIES if c in bounding)
    )
    own_devices = [devices[path] for path in spec.devices]
    return {
        "ociVersion": "1.0.2",
        "annotations": {STOP_TIMEOUT: f"{spec.stop_timeout_s:g}"},
        "process": {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": list(spec.argv),
            "env": [f"{name}={value}" for name, value in _environment(spec).items()],
            "cwd": "/",
            "noNewPrivileges": not (spec.privileged or spec.bare),
            "capabilities": {
                kind: list(capabilities)
                for kind in ("bounding", "effective", "permitted", "inheritable")
            },
            "rlimits": [
                _rlimit("RLIMIT_NOFILE", machine.max_open_files),
                # Memory holds rows, keys and passwords: none of it is written to a disk.
                _rlimit("RLIMIT_CORE", 0),
                *(
                    []
                    if machine.locked_memory_bytes < 0
                    else [_rlimit("RLIMIT_MEMLOCK", machine.locked_memory_bytes)]
                ),
            ],
        },
        "root": {"path": root, "readonly": False},
        "hostname": hostname,
        "mounts": [*_system_mounts(spec), *_bind_mounts(spec)],
        **(
            {"hooks": render_hooks(spec, root=root, note=owners_note)}
            if owners_note is not None and mapped_binds(spec)
            else {}
        ),
        "linux": {
            "namespaces": [
                *(
                    {"type": kind, "path": f"/proc/{host_pid}/ns/{kind}"}
                    if kind in shared
                    else {"type": kind}
                    for kind in ("pid", "mount", "ipc", "uts")
                ),
                {"type": "network", "path": network_namespace},
            ],
            "cgroupsPath": cgroup_path,
            "rootfsPropagation": (
                "rshared" if any(bind.shared for bind in spec.binds) else "rprivate"
            ),
            "devices": [
                {
                    "path": device.path,
                    "type": "b",
                    "major": device.major,
                    "minor": device.minor,
                    "fileMode": 0o600,
                    "uid": uid,
                    "gid": gid,
                }
                for device in own_devices
                if not spec.privileged
            ],
            "maskedPaths": [] if spec.privileged or spec.bare else list(_MASKED_PATHS),
            "resources": _resources(spec, own_devices, devices),
            **({} if spec.privileged or spec.bare else {"seccomp": render_seccomp()}),
        },
    }


def _environment(spec: DaemonSpec) -> dict[str, str]:
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **spec.env,
    }


def _rlimit(kind: str, value: int) -> dict[str, Any]:
    return {"type": kind, "hard": value, "soft": value}


def _system_mounts(spec: DaemonSpec) -> list[dict[str, Any]]:
    proc = {"destination": "/proc", "type": "proc", "source": "proc"}
    run = _tmpfs("/run", "nosuid", "nodev", "mode=755")
    tmp = _tmpfs("/tmp", "nosuid", "nodev", "mode=1777")  # noqa: S108 - inside the container
    if spec.privileged:
        # The host's own /dev: loop devices that appear later must be seen too.
        return [
            proc,
            {"destination": "/dev", "type": "bind", "source": "/dev", "options": ["rbind", "rw"]},
            {"destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "rw"]},
            run,
            tmp,
        ]
    return [
        proc,
        _tmpfs("/dev", "nosuid", "strictatime", "mode=755", "size=65536k"),
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
        _tmpfs("/dev/shm", "nosuid", "noexec", "nodev", "mode=1777"),  # noqa: S108
        {
            "destination": "/sys",
            "type": "sysfs",
            "source": "sysfs",
            "options": ["nosuid", "noexec", "nodev", "ro"],
        },
        run,
        tmp,
    ]


def _tmpfs(destination: str, *options: str) -> dict[str, Any]:
    return {
        "destination": destination,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": list(options),
    }


def _bind_mounts(spec: DaemonSpec) -> list[dict[str, Any]]:
    return [
        {
            "destination": bind.target,
            "type": "bind",
            "source": bind.source,
            "options": [
                "rbind",
                "ro" if bind.read_only else "rw",
                # A slave sees mounts made on the host later, but makes none there.
                "rshared" if bind.shared else "rslave",
            ],
        }
        for bind in spec.binds
    ]


def _resources(
    spec: DaemonSpec, own_devices: list[BlockDevice], devices: dict[str, BlockDevice]
) -> dict[str, Any]:
    if spec.privileged:
        access: list[dict[str, Any]] = [{"allow": True, "access": "rwm"}]
    else:
        access = [
            {"allow": False, "access": "rwm"},
            *(
                {
                    "allow": True,
                    "type": "b",
                    "major": device.major,
                    "minor": device.minor,
                    "access": "rw",
                }
                for device in own_devices
            ),
        ]
    return {"devices": access, **_limits(spec.limits, devices)}


def _limits(limits: Limits, devices: dict[str, BlockDevice]) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if limits.cpus is not None:
        resources["cpu"] = {
            "period": CPU_PERIOD_US,
            "quota": max(1000, int(limits.cpus * CPU_PERIOD_US)),
        }
    if limits.memory_bytes is not None:
        resources["memory"] = {"limit": limits.memory_bytes}
    throttles: dict[str, Callable[[BlockLimit], int | None]] = {
        "throttleReadIOPSDevice": lambda limit: limit.read_iops,
        "throttleWriteIOPSDevice": lambda limit: limit.write_iops,
        "throttleReadBpsDevice": lambda limit: limit.read_bytes_per_s,
        "throttleWriteBpsDevice": lambda limit: limit.write_bytes_per_s,
    }
    block_io: dict[str, Any] = {}
    for key, rate_of in throttles.items():
        entries = [
            _throttle(limit, rate, devices)
            for limit in limits.block
            if (rate := rate_of(limit)) is not None
        ]
        if entries:
            block_io[key] = entries
    if block_io:
        resources["blockIO"] = block_io
    return resources


def render_new_limits(limits: Limits) -> dict[str, Any]:
    """The limits of a container that runs, as `runc update` reads them; -1 is unlimited.

    `checkBeforeUpdate` asks runc to refuse a limit below what is in use, where the kernel would
    end processes instead (control groups of version 2; those of version 1 refuse it themselves).
    """
    quota = -1 if limits.cpus is None else max(1000, int(limits.cpus * CPU_PERIOD_US))
    memory = -1 if limits.memory_bytes is None else limits.memory_bytes
    return {
        "cpu": {"period": CPU_PERIOD_US, "quota": quota},
        "memory": {"limit": memory, "checkBeforeUpdate": True},
    }


def _throttle(limit: BlockLimit, rate: int, devices: dict[str, BlockDevice]) -> dict[str, int]:
    device = devices[limit.device]
    return {"major": device.major, "minor": device.minor, "rate": rate}
