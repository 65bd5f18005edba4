"""What applications need of a server that is there already, and that its data directory may lack.

New data directories have all of it (`layout.render_init_script`). Those of older releases get it as
their servers start, as they are copied, and as they are upgraded. None of it keeps a server from
serving: what a server refuses here, it lacks as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grampus.core.errors import GrampusError
from grampus.databases.administrator import REFUSALS, Administrator, administrator_of
from grampus.databases.hashing import install_hashing, lacks_hashing
from grampus.databases.model import DatabaseSpec
from grampus.databases.replicas.replica_rules import replicas_of
from grampus.databases.step_ports import StepPorts
from grampus.databases.time_zones import NO_ZONEINFO, ensure_time_zones, load_time_zones

# A replica that is away gets it at its own next start.
_AWAY = {"daemon-absent", "host-unreachable", "secrets-missing"}


@contextmanager
def _passing_over(codes: frozenset[str] | set[str]) -> Iterator[None]:
    try:
        yield
    except GrampusError as error:
        if error.code not in codes:
            raise


def support_applications(ports: StepPorts, spec: DatabaseSpec) -> None:
    """A server that has started has the hashing component, and its replicas have it before."""
    administrator = administrator_of(ports, spec)
    with _passing_over(REFUSALS):
        if not lacks_hashing(administrator):
            return
        records = ports.records.all()
        for name in replicas_of(records, spec.name):
            _install_in_replica(ports, records[name].spec)
        install_hashing(administrator, is_replica=spec.replica_of is not None)


def support_in_copy(administrator: Administrator, *, is_replica: bool) -> None:
    """A copied data directory, before anybody is let in and before binary logs are applied."""
    _support_closed(administrator, is_replica=is_replica, again=False)


def support_in_upgrade(administrator: Administrator, *, is_replica: bool) -> None:
    """A data directory under a newer server, whose image may have newer time zones."""
    _support_closed(administrator, is_replica=is_replica, again=True)


def _support_closed(administrator: Administrator, *, is_replica: bool, again: bool) -> None:
    with _passing_over(REFUSALS):
        if lacks_hashing(administrator):
            install_hashing(administrator, is_replica=is_replica)
    with _passing_over({*REFUSALS, NO_ZONEINFO}):
        load = load_time_zones if again else ensure_time_zones
        load(administrator, is_replica=is_replica)


def _install_in_replica(ports: StepPorts, spec: DatabaseSpec) -> None:
    with _passing_over({*REFUSALS, *_AWAY}):
        administrator = administrator_of(ports, spec)
        if lacks_hashing(administrator):
            install_hashing(administrator, is_replica=True)
