"""What databases left on hosts that were lost: ended and removed when such a host is back.

Until then the record of it stays. A server there can write nothing any more, since its volume was
fenced, but it could still answer clients from its memory, at an address that is another host's by
now. So whoever lets the host onto the network again takes the address away before
(`silence_cut_off`), and every command clears a host that can be reached (`clear_left`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.host_addresses import on_host_named, silence_server
from grampus.databases.instance import ensure_instance_absent
from grampus.databases.layout import database_directory, plan_instance, scratch_directory
from grampus.databases.layout import scratch_daemon_name as scratch_daemon
from grampus.databases.model import DatabaseSpec, LeftInstance
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host, HostUnreachableError
from grampus.volumes.decide_identity import is_same_volume
from grampus.volumes.model import VolumeSpec

Sentences = list[str]


def clear_left(ports: StepPorts, left: LeftInstance) -> Sentences:
    """Clear what a database left on a host that can be reached; its lock is held.

    Answers with what was done, or why it could not be done now.
    """
    name, host_name = left.spec.name, left.spec.host
    if host_name not in {host.name for host in ports.fleet.hosts()}:
        ports.records.remove_left(left)  # the host was taken away altogether
        return []
    # A server that waits for a cluster which its host cannot reach ends only when the host does.
    if not ports.fleet.reaches_cluster(host_name):
        return []
    host = ports.fleet.host(host_name)
    try:
        _end(ports, left, host)
        if left.volume is None:
            ports.volumes.takeovers.ensure_cleared(name)
        elif not ports.volumes.takeovers.ensure_left_cleared(left.volume, host_name):
            return [f"The remains of the database {name} on {host_name} are not removed yet."]
        if not _belongs_there(ports, left):
            host.run(["rm", "-rf", str(database_directory(host.data_dir, name))])
    except GrampusError as error:
        return [
            (f"The remains of the database {name} on {host_name} could not be removed: {error}")
        ]
    ports.records.remove_left(left)
    return [f"The remains of the database {name} on {host_name} were removed."]


def silence_cut_off(ports: StepPorts) -> Sentences:
    """Take the addresses of what failed over away, before the hosts that have them are back.

    For hosts that can be told something while they are cut off from the network, as over a
    console; for others nothing happens here. Servers are ended later: one that waits for its
    volume cannot be killed before it has heard that it was fenced. Answers with what failed.
    """
    problems: Sentences = []
    hosts = {host.name: host for host in ports.fleet.hosts()}
    for left in ports.records.all_left():
        if left.spec.host not in hosts:
            continue
        try:
            _take_address(ports, left, hosts[left.spec.host])
        except HostUnreachableError:
            continue
        except GrampusError as error:
            problems.append(
                f"The address of {left.spec.name} could not be taken from {left.spec.host}: {error}"
            )
    return problems


def note_lost_host(ports: StepPorts, spec: DatabaseSpec) -> None:
    """Before a database goes whose host is away: what it leaves there is noted apart from it."""
    if not ports.fleet.is_reachable(spec.host):
        made = LeftInstance(
            spec=spec, left_at=ports.clock.now(), scratch=ports.records.find_scratch(spec.name)
        )
        if made.key not in {left.key for left in ports.records.all_left()}:
            ports.records.put_left(made)


def unless_lost(change: Callable[[], None]) -> Callable[[], None]:
    """A change on a host, or nothing while the host is away: what stays there is noted."""

    def apply() -> None:
        with contextlib.suppress(HostUnreachableError):
            change()

    return apply


def note_left_volume(ports: StepPorts, spec: DatabaseSpec, meant: VolumeSpec | None = None) -> bool:
    """Before a volume goes: what fences left of it on hosts that are away is noted apart from it.

    Whether there is any. A host that is away and has the volume is cut off from it first. With
    `meant`, another volume of that name is left as it is.
    """
    try:
        volume = ports.volumes.get(spec.name)
        if meant is not None and not is_same_volume(volume.spec, meant):
            return False
        if volume.host is not None and not ports.fleet.is_reachable(volume.host):
            ports.volumes.takeovers.ensure_fenced(spec.name, volume.host)
            volume = ports.volumes.get(spec.name)
    except NotFoundError:
        return False
    away = [left for left in volume.fenced if not ports.fleet.is_reachable(left.host)]
    known = {left.key: left for left in ports.records.all_left()}
    for fenced in away:
        there = on_host_named(spec, ports.fleet, fenced.host)
        made = LeftInstance(spec=there, left_at=ports.clock.now())
        left = known.get(made.key, made)
        ports.records.put_left(left.model_copy(update={"volume": volume}))
    return bool(away)


def _end(ports: StepPorts, left: LeftInstance, host: Host) -> None:
    """Its address free, its daemons ended; nothing of a database that runs there again."""
    _take_address(ports, left, host)
    if not _serves_there(ports, left):
        plan = plan_instance(left.spec, host.data_dir, host.data_dir)
        for daemon in (plan.daemon, plan.init_daemon):
            host.ensure_daemon_absent(daemon, kill=True)
    if left.scratch is not None and ports.records.find_scratch(left.spec.name) is None:
        ensure_instance_absent(
            host,
            daemons=(scratch_daemon(left.spec.name),),
            directory=scratch_directory(host.data_dir, left.spec.name),
            address=None if left.scratch.shares_address else left.scratch.address,
        )


def _take_address(ports: StepPorts, left: LeftInstance, host: Host) -> None:
    """At the host's own address, what still listens there is closed instead."""
    if _serves_there(ports, left):
        return
    if left.spec.shares_address:
        silence_server(host, left.spec)
    elif left.spec.address not in _addresses_of_others(ports, left):
        host.ensure_address_absent(left.spec.address)


def _belongs_there(ports: StepPorts, left: LeftInstance) -> bool:
    """Whether that host is where the database is now, running or not."""
    record = ports.records.find(left.spec.name)
    return record is not None and record.spec.host == left.spec.host


def _serves_there(ports: StepPorts, left: LeftInstance) -> bool:
    """Whether the database was brought up there again: then the host has its volume."""
    try:
        has_volume = ports.volumes.get(left.spec.name).host == left.spec.host
    except NotFoundError:
        return False
    return has_volume and _belongs_there(ports, left)


def _addresses_of_others(ports: StepPorts, left: LeftInstance) -> set[str]:
    """Addresses that other databases have on that host."""
    return {
        record.spec.address
        for name, record in ports.records.all().items()
        if record.spec.host == left.spec.host and name != left.spec.name
    }
