"""Daemons as transient services of systemd. Pure.

A transient service (systemd-run(1)) has no file that a boot could start it from: after a power cut
nothing of a database runs until Grampus has looked at who owns its volume. Sources:
systemd.exec(5), systemd.resource-control(5) and systemd.service(5) of release 252.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grampus.hosts.idmapped_mounts import decide_user, mapped_binds
from grampus.hosts.oci_config import DAEMON_CAPABILITIES
from grampus.hosts.port import (
    Bind,
    BlockLimit,
    CpuWait,
    DaemonSpec,
    DaemonState,
    DaemonStatus,
    Limits,
    Usage,
)
from grampus.hosts.remote.host_root import command_root
from grampus.hosts.seccomp import REFUSED_SYSTEM_CALLS

_ACTIVE = ("active", "activating", "reloading", "deactivating")
_STATUS_PROPERTIES = ("Id", "ActiveState", "MainPID", "Result")
_USAGE_PROPERTIES = (
    "Id",
    "CPUUsageNSec",
    "MemoryCurrent",
    "IOReadOperations",
    "IOWriteOperations",
    "IOReadBytes",
    "IOWriteBytes",
)


@dataclass(frozen=True)
class UnitPlace:
    """Where the services of one site are on a host."""

    tag: str  # of the site
    directory: str  # of the site on the host
    image_id: str  # of the root that commands run in

    def unit(self, daemon: str) -> str:
        """The name of a daemon's service."""
        return f"grampus-{self.tag}-{daemon}.service"

    def daemon_directory(self, daemon: str) -> str:
        """What is kept on disk of a daemon. It is there from its start until it is removed."""
        return f"{self.directory}/daemons/{daemon}"

    def mapped_directory(self, daemon: str) -> str:
        """Where its binds are prepared that have the daemon's own user as the owner of files."""
        return f"{self.directory}/data/mapped/{daemon}"

    def mapped(self, daemon: str, number: int) -> str:
        """One of them."""
        return f"{self.mapped_directory(daemon)}/{number}"


def render_start(spec: DaemonSpec, place: UnitPlace, *, maps_owners: bool) -> list[str]:
    """The command that starts the daemon's service; with `maps_owners` its binds are mapped."""
    properties = [
        "Type=exec",
        "KillMode=mixed",
        f"KillSignal=SIG{spec.stop_signal}",
        f"TimeoutStopSec={spec.stop_timeout_s:g}",
        "CPUAccounting=yes",
        "MemoryAccounting=yes",
        "IOAccounting=yes",
        "TasksMax=infinity",
        "LimitNOFILE=1048576",
        "LimitMEMLOCK=infinity",
        # Memory holds rows, keys and passwords: none of it is written to a disk.
        "LimitCORE=0",
        "LogRateLimitIntervalSec=0",
        f"SyslogIdentifier={spec.name}",
        *_limits(spec.limits),
        *(_roots(spec, place, maps_owners=maps_owners)),
    ]
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        **spec.env,
    }
    return [
        "systemd-run",
        "--quiet",
        f"--unit={place.unit(spec.name)}",
        f"--slice=grampus-{place.tag}.slice",
        f"--description=Grampus: {spec.name}",
        *(f"--property={one}" for one in properties),
        *(f"--setenv={name}={value}" for name, value in environment.items()),
        "--",
        *_as_user(spec, maps_owners=maps_owners),
        # systemd.service(5): `$` begins a variable there, which systemd-run leaves to us.
        *(word.replace("$", "$$") for word in spec.argv),
    ]


def _as_user(spec: DaemonSpec, *, maps_owners: bool) -> list[str]:
    """What changes the user. `User=` would need an entry of the host's passwd for its number."""
    uid, gid = decide_user(spec, maps_owners=maps_owners)
    if spec.privileged or uid == 0:
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]


def _roots(spec: DaemonSpec, place: UnitPlace, *, maps_owners: bool) -> list[str]:
    if spec.privileged:
        # In the host's own mount namespace: what it mounts is seen by all, and all paths are the
        # same as for commands. Any further property of mounts would give it one of its own.
        root = command_root(place.directory, place.image_id)
        return [f"RootDirectory={root}", "MountAPIVFS=no"]
    mapped = mapped_binds(spec) if maps_owners else ()
    shared = [
        f"RootDirectory={place.daemon_directory(spec.name)}/root",
        "MountAPIVFS=yes",
        "TemporaryFileSystem=/run:mode=755 /tmp:mode=1777",
        *(
            _bind(bind, place.mapped(spec.name, number) if bind in mapped else bind.source)
            for number, bind in enumerate(spec.binds)
        ),
    ]
    if spec.bare:
        return shared
    return [
        *shared,
        "NoNewPrivileges=yes",
        "PrivateDevices=yes" if not spec.devices else "DevicePolicy=closed",
        *(f"DeviceAllow={device} rw" for device in spec.devices),
        *(f"BindPaths={device}" for device in spec.devices),
        f"CapabilityBoundingSet={' '.join(DAEMON_CAPABILITIES)}",
        "RestrictSUIDSGID=yes",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        f"SystemCallFilter=~{' '.join(REFUSED_SYSTEM_CALLS)}",
        "SystemCallErrorNumber=EPERM",
        "ProtectKernelTunables=yes",
        "ProtectKernelModules=yes",
        "ProtectProc=invisible",
    ]


def _bind(bind: Bind, source: str) -> str:
    # `-` would ignore a source that is missing, and a database would begin empty.
    return f"{'BindReadOnlyPaths' if bind.read_only else 'BindPaths'}={source}:{bind.target}"


def _limits(limits: Limits) -> list[str]:
    return [*render_new_limits(limits), *(line for one in limits.block for line in _block(one))]


def render_new_limits(limits: Limits) -> list[str]:
    """CPU and memory limits as properties, those that are unlimited included."""
    memory = "infinity" if limits.memory_bytes is None else str(limits.memory_bytes)
    quota = "" if limits.cpus is None else f"{limits.cpus * 100:g}%"
    return [f"MemoryMax={memory}", f"CPUQuota={quota}"]


def _block(limit: BlockLimit) -> list[str]:
    rates = {
        "IOReadIOPSMax": limit.read_iops,
        "IOWriteIOPSMax": limit.write_iops,
        "IOReadBandwidthMax": limit.read_bytes_per_s,
        "IOWriteBandwidthMax": limit.write_bytes_per_s,
    }
    return [f"{name}={limit.device} {rate}" for name, rate in rates.items() if rate is not None]


# sh on the host itself: the daemons that are known there, and what systemd says of them. It fails
# when systemd does not answer: a daemon of which nothing is known has not ended.
_SHOW = """
set -eu
cd "$1/daemons"
tag=$2 properties=$3 only=${4:-}
set --
for name in ${only:-*}; do
  if test -d "$name"; then set -- "$@" "grampus-$tag-$name.service"; fi
done
test $# -gt 0 || exit 0
shown=$(systemctl show --property="$properties" "$@")
unit= pid=0
while IFS= read -r line; do
  case $line in
    Id=*) unit=${line#Id=} ;;
    MainPID=*) pid=${line#MainPID=} ;;
  esac
  if test -n "$line"; then printf '%s\n' "$line"; continue; fi
  name=${unit#"grampus-$tag-"}
  name=${name%.service}
  printf 'Daemon=%s\n' "$name"
  if test -e "$name/image"; then
    read -r image <"$name/image" || true
    printf 'Image=%s\n' "$image"
  fi
  if test "$pid" != 0; then
    while read -r key _ user _; do
      if test "$key" = Uid:; then printf 'User=%s\n' "$user"; break; fi
    done 2>/dev/null <"/proc/$pid/status" || true
    program=$(readlink "/proc/$pid/exe" 2>/dev/null) || true
    printf 'Program=%s\n' "$program"
  fi
  echo
  unit= pid=0
done <<END
$shown

END
"""


def status_argv(place: UnitPlace, daemon: str = "") -> list[str]:
    """The command on the host whose output `parse_statuses` reads; of all daemons, or of one."""
    return _show_argv(place, _STATUS_PROPERTIES, daemon)


def usage_argv(place: UnitPlace) -> list[str]:
    """The command on the host whose output `parse_usages` reads."""
    return _show_argv(place, _USAGE_PROPERTIES, "")


# sh on the host itself: what the threads of each of these daemons that runs waited for a CPU, and
# what its control group was held back, in ns (v1) or us (v2) as the kernel counts them.
_CPU_WAITS = """
set -u
tag=$1
shift
for name in "$@"; do
  unit=grampus-$tag-$name.service
  for tree in /sys/fs/cgroup /sys/fs/cgroup/cpu; do
    group=$tree/grampus.slice/grampus-$tag.slice/$unit
    test -e "$group/cpu.stat" || continue
    printf 'Daemon=%s\\n' "$name"
    grep -E '^throttled_(usec|time) ' "$group/cpu.stat" | tr ' ' =
    while read -r pid; do cat /proc/"$pid"/task/*/schedstat; done <"$group/cgroup.procs" \\
      2>/dev/null | awk '{ waited += $2 } END { if (NR) printf "waited_ns=%.0f\\n", waited }'
    echo
    break
  done
done
"""


def cpu_waits_argv(place: UnitPlace, daemons: Collection[str]) -> list[str]:
    """The command on the host whose output `parse_cpu_waits` reads."""
    return ["sh", "-c", _CPU_WAITS, "grampus-waits", place.tag, *sorted(daemons)]


def _show_argv(place: UnitPlace, properties: Sequence[str], daemon: str) -> list[str]:
    return [
        *("sh", "-c", _SHOW, "grampus-daemons"),
        *(place.directory, place.tag, ",".join(properties), daemon),
    ]


def image_note(spec: DaemonSpec, place: UnitPlace) -> str:
    """What is noted of the image that a daemon starts from: whose it is, and its id."""
    return f"own {place.image_id}" if spec.image is None else f"named {spec.image}"


def parse_statuses(text: str, image_id: str) -> list[DaemonStatus]:
    """The daemons, sorted by name. One without a service has ended, or its host was restarted.

    `image_id` is the host's own image: a daemon that began with an earlier one is outdated.
    """
    return [_status(block, image_id) for block in _blocks(text)]


def _status(block: Mapping[str, str], image_id: str) -> DaemonStatus:
    pid = int(block.get("MainPID", "0"))
    is_running = block.get("ActiveState") in _ACTIVE and pid > 0
    state: DaemonState = "running" if is_running else "stopped"
    user = block.get("User", "")
    return DaemonStatus(
        name=block["Daemon"],
        state=state,
        pid=pid if is_running else None,
        out_of_memory=int(not is_running and block.get("Result") == "oom-kill"),
        uid=(int(user) if user.isdecimal() else 0) if is_running else None,
        is_outdated=is_running and _is_outdated(block, image_id),
    )


def _is_outdated(block: Mapping[str, str], image_id: str) -> bool:
    whose, _, image = block.get("Image", "").partition(" ")
    # proc_pid_exe(5): a newer program was put in the place of the one that runs.
    return (whose == "own" and image != image_id) or block.get("Program", "").endswith(" (deleted)")


def parse_usages(text: str) -> dict[str, Usage]:
    """Counters by daemon; systemd says nothing of those that do not run."""
    found = {}
    for block in _blocks(text):
        # A machine that counts no CPU time for each service may still count its memory.
        if any(_count(block, name) for name in _USAGE_PROPERTIES):
            found[block["Daemon"]] = Usage(
                cpu_us=_count(block, "CPUUsageNSec") // 1000,
                memory_bytes=_count(block, "MemoryCurrent"),
                read_ops=_count(block, "IOReadOperations"),
                write_ops=_count(block, "IOWriteOperations"),
                read_bytes=_count(block, "IOReadBytes"),
                write_bytes=_count(block, "IOWriteBytes"),
            )
    return found


def parse_cpu_waits(text: str) -> dict[str, CpuWait]:
    """By daemon; without those whose waiting the kernel does not count."""
    return {
        block["Daemon"]: CpuWait(
            waited_us=_count(block, "waited_ns") // 1000,
            throttled_us=_count(block, "throttled_usec") or _count(block, "throttled_time") // 1000,
        )
        for block in _blocks(text)
        if "waited_ns" in block
    }


def _count(block: Mapping[str, str], name: str) -> int:
    text = block.get(name, "")
    # `[not set]`, `[no data]`, or the largest number of 64 bits where a counter is not kept.
    return int(text) if text.isdecimal() and int(text) < 2**64 - 1 else 0


def _blocks(text: str) -> list[dict[str, str]]:
    blocks = [
        dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        for block in text.split("\n\n")
    ]
    return [block for block in blocks if "Daemon" in block]
