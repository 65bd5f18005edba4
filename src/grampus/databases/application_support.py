"""What applications need of a server, and its data directory may lack: zones by name, and MD5().

New data directories have both (`first_tables`). Those of older releases get them as their servers
start, as they are copied, and as they are upgraded. Neither keeps a server from serving: what a
server refuses here, it lacks as before.

**Time zones.** Without its tables a server answers NULL to `CONVERT_TZ` with a name, and refuses
`SET time_zone` (error 1298). A load takes 1 to 2 s.

**MD5() and SHA1()** of MySQL 9 are in a component, which users cannot install; without it both fail
with `No database selected` (1046). It is recorded in `mysql.component`, so it is there again after
each start and in each copy of the data directory.

No binary log has any of it (of `INSTALL COMPONENT` tried with MySQL 9.7.4): on a replica it would
be a transaction that its primary lacks. So every server is given it for itself, and a replica
before its primary: a transaction names the zone of its session, and fails where that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from grampus.core.errors import GrampusError
from grampus.databases.administrator import (
    REFUSALS,
    Administrator,
    administrator_of,
    classify_failure,
    writing_as_administrator,
    writing_to,
)
from grampus.databases.first_tables import HASHING_COMPONENT, NO_ZONES_CODE, render_load_script
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts

LOAD_TIMEOUT_S = 300.0  # 1 to 2 s; a busy pool of hard disks takes longer
LOADING = "time zones"  # as the list of processes calls it
NO_ZONEINFO = "no-zoneinfo"
NAMES_SQL = "SELECT Name FROM mysql.time_zone_name"
OBSERVE_SQL = (
    "SELECT VERSION(), COUNT(*) FROM mysql.component "
    "WHERE component_urn = 'file://component_classic_hashing'"
)
INSTALL_SQL = f"SET SESSION sql_log_bin = 0; INSTALL COMPONENT '{HASHING_COMPONENT}'"
INSTALL_TIMEOUT_S = 15.0  # it waits for nobody: the disk may be full
_SINCE = 9  # older servers have both functions built in
# A replica that is away gets it at its own next start.
_AWAY = {"daemon-absent", "host-unreachable", "secrets-missing"}
# Another command writes to a replica, and gives it the same.
_LEFT = REFUSALS | {"busy"}


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
    with _passing_over(_LEFT):
        if not _lacks_hashing(administrator):
            return
        for _, replica in sorted(ports.records.followers(spec.name).items()):
            _install_in_replica(ports, replica.spec)
        _install_hashing(administrator, writing_to(ports, spec, administrator))
        ports.volumes.ensure_durable(spec.name)


def support_in_copy(administrator: Administrator, *, is_replica: bool) -> None:
    """A copied data directory, before anybody is let in and before binary logs are applied."""
    _support_closed(administrator, is_replica=is_replica, again=False)


def support_in_upgrade(administrator: Administrator, *, is_replica: bool) -> None:
    """A data directory under a newer server, whose image may have newer time zones."""
    _support_closed(administrator, is_replica=is_replica, again=True)


def _support_closed(administrator: Administrator, *, is_replica: bool, again: bool) -> None:
    with _passing_over(REFUSALS):
        if _lacks_hashing(administrator):
            writing = writing_as_administrator(administrator, is_replica=is_replica)
            _install_hashing(administrator, writing)
    with _passing_over({*REFUSALS, NO_ZONEINFO}):
        load = load_time_zones if again else _ensure_time_zones
        load(administrator, writing_as_administrator(administrator, is_replica=is_replica))


def _install_in_replica(ports: StepPorts, spec: DatabaseSpec) -> None:
    with _passing_over({*_LEFT, *_AWAY}):
        administrator = administrator_of(ports, spec)
        if _lacks_hashing(administrator):
            _install_hashing(administrator, writing_to(ports, spec, administrator))
            ports.volumes.ensure_durable(spec.name)


def observe_time_zones(administrator: Administrator) -> list[str]:
    """The names in the server's tables."""
    return [row[0] for row in administrator.query(NAMES_SQL)]


def _ensure_time_zones(administrator: Administrator, writing: AbstractContextManager[None]) -> None:
    """The tables loaded, if they are empty. Raises what `load_time_zones` raises."""
    if not observe_time_zones(administrator):
        load_time_zones(administrator, writing)


def load_time_zones(administrator: Administrator, writing: AbstractContextManager[None]) -> None:
    """The tables as the zoneinfo of the server's image has them now; `writing` lets write to it.

    MySQL's clients see the former rows until all new ones are there. MariaDB empties its tables
    first, so that a name may be unknown for a second. Raises GrampusError with code `no-zoneinfo`,
    and what `Administrator.query` raises.
    """
    with writing:
        result = administrator.client().run_made(
            render_load_script(administrator.flavour), what=LOADING, timeout_s=LOAD_TIMEOUT_S
        )
    if result.returncode == NO_ZONES_CODE:
        raise GrampusError(
            f"The image of the server {administrator.daemon} has no zoneinfo to load.",
            "Upgrade the database to an image with the package tzdata: `grampus db upgrade NAME`.",
            code=NO_ZONEINFO,
        )
    if result.returncode != 0:
        raise classify_failure("load the time zone tables", result)


def _lacks_hashing(administrator: Administrator) -> bool:
    """Whether the server has such a component and has not installed it."""
    if administrator.flavour != "mysql":
        return False
    [(version, installed)] = administrator.query(OBSERVE_SQL)
    return not has_hashing(version, installed)


def has_hashing(version: str, installed: str) -> bool:
    """Whether a MySQL server that answers so to `OBSERVE_SQL` has both functions."""
    return installed != "0" or int(version.partition(".")[0]) < _SINCE


def _install_hashing(administrator: Administrator, writing: AbstractContextManager[None]) -> None:
    """To be asked of a server that lacks it."""
    with writing:
        administrator.query(INSTALL_SQL, timeout_s=INSTALL_TIMEOUT_S)
