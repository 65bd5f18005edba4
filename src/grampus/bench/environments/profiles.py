"""Tuning profiles: what each one sets, and a cluster brought from one to another between trials.

What was there before is in the state before anything is changed, so that whoever comes after a
killed run has it back. Arms that differ in their profile take turns on the same OSDs, which are
restarted for it: a good part of these settings is read at an OSD's start alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from grampus.bench.environments.environment_records import PROFILE, PROFILE_RECORD, BenchProfile
from grampus.core.progress import Progress
from grampus.state.store import Store

OWN = "grampus"


@dataclass(frozen=True)
class Profile:
    """What a profile sets: `kernel` of each host's network, by sysctl; `osd` in the cluster's
    configuration, for all OSDs; `server` beside Grampus's own parameters.
    """

    kernel: Mapping[str, str] = field(default_factory=dict)
    osd: Mapping[str, str] = field(default_factory=dict)
    server: Mapping[str, str] = field(default_factory=dict)


# The server's own defaults (the manual of MySQL 9.7) where Grampus chooses others for the sake of
# speed; what it chooses for the sake of memory or of what is acknowledged stays.
_SERVER_DEFAULTS = {
    "innodb_io_capacity": "10000",
    "innodb_io_capacity_max": "20000",
    "innodb_redo_log_capacity": "104857600",
}
PROFILES: Mapping[str, Profile] = {
    OWN: Profile(),
    # Grampus changes neither the kernel's network nor how OSDs work.
    "defaults": Profile(server=_SERVER_DEFAULTS),
    # The paper says nothing of the server.
    "redhat-2016": Profile(
        kernel={
            "net.ipv4.tcp_rmem": "10240 87380 125829120",
            "net.ipv4.tcp_wmem": "10240 87380 125829120",
            "net.ipv4.tcp_window_scaling": "1",
            "net.ipv4.tcp_timestamps": "1",
            "net.ipv4.tcp_sack": "1",
        },
        osd={
            "filestore_wbthrottle_enable": "false",
            "filestore_queue_max_bytes": "1048576000",
            "filestore_queue_max_ops": "5000",
            "filestore_max_sync_interval": "10",
            "filestore_fd_cache_size": "64",
            "filestore_fd_cache_shards": "32",
            "filestore_op_threads": "6",
            "journal_max_write_entries": "1000",
            "journal_max_write_bytes": "1048576000",
            "osd_enable_op_tracker": "false",
            "osd_client_message_size_cap": "0",
            "osd_client_message_cap": "0",
            "ms_dispatch_throttle_bytes": "1048576000",
            "osd_op_num_shards": "5",
            "osd_op_num_threads_per_shard": "2",
        },
        server=_SERVER_DEFAULTS,
    ),
    # The paper's my.cnf; it shows no configuration of Ceph or of the kernel.
    "intel-optane": Profile(
        server={
            **_SERVER_DEFAULTS,
            "performance_schema": "OFF",
            "innodb_checksum_algorithm": "none",
            "innodb_read_io_threads": "16",
            "innodb_write_io_threads": "16",
            "thread_cache_size": "16",
        }
    ),
}
# What a source sets and no profile does, and why.
LEFT_OUT: Mapping[str, str] = {
    "net.core.rmem_max, net.core.wmem_max, net.core.netdev_max_backlog, vm.swappiness": (
        "they are the whole machine's, not a host's of the lab"
    ),
    "osd_op_threads, filestore_xattr_use_omap, filestore_queue_committing_max_*, "
    "journal_queue_max_*": "Ceph has had none of them since Luminous",
    "objecter_inflight_*": "a client reads them at its start, and no load here comes near them",
    "osd_mkfs_options_xfs, osd_mount_options_xfs": "an OSD is made once for all profiles",
    "innodb_flush_log_at_trx_commit, innodb_buffer_pool_size": "they are separate dimensions",
    "innodb_log_file_size of 4 GiB": "a redo log is as big as its volume bears",
}


class TuningPort(Protocol):
    """Settings of a cluster's OSDs and of its hosts' kernels. All raise GrampusError."""

    def observe_options(self) -> Mapping[str, str]:
        """Those of all OSDs that the cluster's configuration holds, by name."""
        ...

    def set_options(self, options: Mapping[str, str | None]) -> None:
        """For all OSDs, from their next start on at the latest; None: no longer set."""
        ...

    def restart_osds(self) -> None:
        """All of them; all placement groups serve again when it returns."""
        ...

    def observe_kernel(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Each reachable host's values of these sysctls."""
        ...

    def set_kernel(self, host: str, values: Mapping[str, str]) -> None:
        """Of one host."""
        ...


class Profiles:
    """Brings the cluster to a profile, and back to what it was."""

    def __init__(self, tuning: TuningPort, store: Store, lab: str, progress: Progress) -> None:
        self._tuning = tuning
        self._store = store
        self._lab = lab
        self._progress = progress

    def ensure(self, name: str) -> None:
        """The kernels and OSDs as the profile has them. Raises GrampusError."""
        found = self._store.get(PROFILE_RECORD, self._lab, PROFILE, BenchProfile)
        if found is None and not changes_cluster(name):
            return
        if found is not None and found.applied and has_same_cluster(found.profile, name):
            return
        self._progress.detail(f"sets the profile {name}")
        record = found or self._observe_former()
        changed = decide_options(record, name)
        self._put(record.model_copy(update={"profile": name, "applied": False}))
        for host, former in self._tuning.observe_kernel(kernel_names()).items():
            wanted = {**record.kernel.get(host, former), **PROFILES[name].kernel}
            self._tuning.set_kernel(host, wanted)
        if changed:
            self._tuning.set_options(changed)
            self._tuning.restart_osds()
        if changes_cluster(name):
            self._put(record.model_copy(update={"profile": name, "applied": True}))
        else:
            self._store.remove(PROFILE_RECORD, self._lab, PROFILE)

    def restore(self) -> None:
        """As it was before the first profile; nothing happens when there was none."""
        self.ensure(OWN)

    def _observe_former(self) -> BenchProfile:
        options = self._tuning.observe_options()
        return BenchProfile(
            profile=OWN,
            applied=True,
            options={name: options[name] for name in option_names() if name in options},
            kernel=self._tuning.observe_kernel(kernel_names()),
        )

    def _put(self, record: BenchProfile) -> None:
        self._store.put(PROFILE_RECORD, self._lab, PROFILE, record)


def decide_options(found: BenchProfile, name: str) -> dict[str, str | None]:
    """What is to be set for all OSDs on the way from what was found to a profile.

    One that was cut off may have set any of them, and may not have restarted an OSD: all are set
    again then.
    """

    def values(profile: str) -> dict[str, str | None]:
        own = PROFILES[profile].osd
        return {key: own.get(key, found.options.get(key)) for key in option_names()}

    before, after = values(found.profile), values(name)
    if not found.applied:
        return after
    return {key: value for key, value in after.items() if value != before[key]}


def changes_cluster(name: str) -> bool:
    """Whether the profile sets anything but the server's parameters."""
    return not has_same_cluster(name, OWN)


def has_same_cluster(one: str, other: str) -> bool:
    """Whether two profiles differ in the server's parameters alone."""
    first, second = PROFILES[one], PROFILES[other]
    return (first.kernel, first.osd) == (second.kernel, second.osd)


def option_names() -> tuple[str, ...]:
    """Ceph's options that any profile sets."""
    return tuple(dict.fromkeys(name for one in PROFILES.values() for name in one.osd))


def kernel_names() -> tuple[str, ...]:
    """Sysctls that any profile sets."""
    return tuple(dict.fromkeys(name for one in PROFILES.values() for name in one.kernel))
