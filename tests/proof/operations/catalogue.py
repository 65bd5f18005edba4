"""The operations that are tried on a database under load, and what each of them promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Two busy cores, and a client that waits 20 ms between its rows.
QUIET_PAUSE_S = 1.0
# A server is stopped and started: it writes its pages out before, which `db restart` does while
# clients go on, and needs 3 to 5 s for both on two busy cores. Twice that is a defect.
RESTART_PAUSE_S = 10.0
# Besides, the volume is detached and attached, and each command is begun by a process of its own.
REATTACH_PAUSE_S = 15.0
CREATIONS = 20


@dataclass(frozen=True)
class Place:
    """Where the database is, and where its things go."""

    database: str
    other_host: str  # another than the one it runs on
    directory: str  # for backups
    pool: str  # another pool than its own
    size_bytes: int  # of its volume


@dataclass(frozen=True)
class Promise:
    """What the clients of a database are promised of an operation on it."""

    most_s: float | None = None  # the whole command; None: as long as it takes
    p50_s: float | None = None  # half of the commands that are timed one by one
    pause_s: float | None = None  # without an answer; None: as long as it takes
    # No query fails and no connection ends. False: the server is stopped and started.
    is_online: bool = True


@dataclass(frozen=True)
class Operation:
    """One command on the database, or several that belong together."""

    name: str
    promise: Promise
    commands: Callable[[Place], list[tuple[str, ...]]]
    timed: tuple[str, ...] = ()  # commands that begin so are timed one by one
    # Its second command takes back what was committed since its first, which took a snapshot.
    goes_back: bool = False
    # Another database, which must hold all that was committed before the last command began.
    copy: str = ""
    says: str = ""  # what one of its commands must say


def _one(*command: str) -> Callable[[Place], list[tuple[str, ...]]]:
    """One command; `{...}` in it stands for what `Place` has."""
    return lambda place: [tuple(word.format(**vars(place)) for word in command)]


_ONLINE = Promise(pause_s=QUIET_PAUSE_S)
_BRIEF = Promise(pause_s=5.0, is_online=False)
_RESTART = Promise(pause_s=RESTART_PAUSE_S, is_online=False)
_REATTACH = Promise(pause_s=REATTACH_PAUSE_S, is_online=False)


def _creations(place: Place) -> list[tuple[str, ...]]:
    """Databases of its size, thin, one after the other."""
    name, size = f"{place.database}-new", f"{place.size_bytes // 2**20}M"
    once = [
        ("db", "create", name, "--size", size, "--memory", "512M", "--cpus", "1"),
        ("db", "delete", name, "--now", "--yes"),
    ]
    return once * CREATIONS


def _growth_by_rule(place: Place) -> list[tuple[str, ...]]:
    """From what the resize before it has left, by one step, as the controller does it."""
    name, up_to = place.database, f"{place.size_bytes // 2**20 + 512}M"
    return [
        *(("db", "growth", "set", name, "--when", "10%", "--step", "256M", "--up-to", up_to),),
        ("serve", "--once"),
        ("db", "growth", "off", name),
    ]


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "twenty creations",
        Promise(p50_s=5.0, pause_s=QUIET_PAUSE_S),
        _creations,
        timed=("db", "create"),
    ),
    Operation("snapshot", _ONLINE, _one("db", "snapshot", "create", "{database}", "tried")),
    Operation(
        "clone",
        Promise(most_s=10.0, pause_s=QUIET_PAUSE_S),
        _one("db", "clone", "{database}", "{database}-copy", "--memory", "512M"),
    ),
    Operation("flatten of the clone", _ONLINE, _one("db", "flatten", "{database}-copy")),
    Operation(
        "deletion of the clone",
        _ONLINE,
        _one("db", "delete", "{database}-copy", "--now", "--yes"),
    ),
    Operation(
        "growth of the volume",
        _ONLINE,
        lambda place: [
            ("db", "resize", place.database, "--size", f"{place.size_bytes // 2**20 + 256}M")
        ],
    ),
    Operation("growth by rule", _ONLINE, _growth_by_rule, says="has grown from"),
    Operation(
        "more memory and CPUs",
        _ONLINE,
        _one("db", "set", "{database}", "--memory", "768M", "--cpus", "1.5"),
    ),
    Operation(
        "less memory and CPUs",
        _ONLINE,
        _one("db", "set", "{database}", "--memory", "512M", "--cpus", "1"),
    ),
    Operation(
        "change of a parameter",
        _ONLINE,
        _one("db", "parameter", "set", "{database}", "innodb_io_capacity", "900"),
    ),
    # Before the backups: what is archived after it belongs to another history.
    Operation(
        "rollback to a snapshot",
        Promise(is_online=False),
        lambda place: [
            ("db", "snapshot", "create", place.database, "back"),
            ("db", "snapshot", "rollback", place.database, "back", "--yes"),
            ("db", "snapshot", "delete", place.database, "back", "--yes"),
        ],
        goes_back=True,
    ),
    Operation(
        "full backup",
        _ONLINE,
        _one("db", "backup", "create", "{database}", *("--to", "{directory}")),
    ),
    Operation(
        "incremental backup",
        _ONLINE,
        _one("db", "backup", "create", "{database}", *("--to", "{directory}")),
    ),
    Operation(
        "archiving of binary logs",
        _ONLINE,
        _one("db", "backup", "archive", "{database}", *("--to", "{directory}")),
    ),
    Operation(
        "restore test", _ONLINE, _one("db", "backup", "test", "{database}", "--from", "{directory}")
    ),
    Operation("new replica", _ONLINE, _one("db", "replica", "add", "{database}")),
    Operation("renewal of the replica", _ONLINE, _one("db", "replica", "renew", "{database}-r1")),
    Operation(
        "removal of the replica",
        _ONLINE,
        _one("db", "replica", "remove", "{database}-r1", "--yes"),
    ),
    Operation(
        "promotion of a replica",
        _ONLINE,
        lambda place: [
            ("db", "replica", "add", place.database),
            ("db", "replica", "promote", f"{place.database}-r1", "--wait"),
        ],
        timed=("db", "replica", "promote"),
        copy="{database}-r1",
    ),
    Operation(
        "deletion of what was promoted",
        _ONLINE,
        _one("db", "delete", "{database}-r1", "--now", "--yes"),
    ),
    Operation(
        "protection on and off",
        _ONLINE,
        lambda place: [("db", verb, place.database) for verb in ("protect", "unprotect")],
    ),
    Operation("new user", _ONLINE, _one("db", "user", "add", "{database}", "reports")),
    Operation("rotation of passwords", _ONLINE, _one("db", "rotate", "{database}")),
    Operation(
        "rotation of certificates",
        _ONLINE,
        lambda place: [
            ("db", "certificate", verb, place.database) for verb in ("rotate", "retire")
        ],
    ),
    Operation("verification", _ONLINE, _one("db", "verify", "{database}")),
    Operation(
        "deletion of a snapshot",
        _ONLINE,
        _one("db", "snapshot", "delete", "{database}", "tried", "--yes"),
    ),
    Operation(
        "migration to another pool",
        Promise(pause_s=3.0),
        _one("db", "migrate", "{database}", "--pool", "{pool}"),
    ),
    Operation("label", _ONLINE, _one("db", "label", "{database}", "tried=yes")),
    Operation(
        "move to another host", _BRIEF, _one("db", "move", "{database}", "--host", "{other_host}")
    ),
    Operation("restart", _RESTART, _one("db", "restart", "{database}")),
    Operation(
        "another write path and back",
        _REATTACH,
        lambda place: [
            ("db", "set", place.database, "--write-path", path) for path in ("direct", "journal")
        ],
    ),
    Operation(
        "stop and start",
        _REATTACH,
        lambda place: [("db", verb, place.database) for verb in ("stop", "start")],
    ),
)
