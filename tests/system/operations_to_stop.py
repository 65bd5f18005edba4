"""Operations that are killed at every step on a real lab: what makes each possible, and its end.

Pure; `tests/unit/system/test_operations_to_stop.py` holds it against the kinds and steps of the
code, `tests/integration/test_every_step.py` carries it out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.system.declared_steps import database_step_names, volume_step_names

# Of the shared database, of a further one and of a volume.
NAME, COPY, VOLUME = "steps", "steps-copy", "steps-volume"


# What a command can name in braces: a number that grows, a directory for backups, a moment of which
# there are archived binary logs, a host that is not the database's, the snapshot of a rollback.
PLACES = ("n", "shelf", "moment", "host", "safety")


@dataclass(frozen=True)
class Stopped:
    """One operation. Commands are those of `grampus`, with PLACES put in."""

    kind: str
    command: str
    prepare: tuple[str, ...] = ()
    back: tuple[str, ...] = ()  # what brings the lab to where it was, once it is done
    is_undone: bool = False  # when it is cut off; else finished
    absent: frozenset[str] = frozenset()  # steps that this command's operation has not
    # Kinds of things of the inventory that it changes whatever becomes of it, until `back`.
    settles_anyway: frozenset[str] = frozenset()

    @property
    def steps(self) -> list[str]:
        """The names of its steps, read from the code."""
        names = (
            volume_step_names()[self.kind]
            if self.kind.startswith("volume.")
            else database_step_names(self.kind)
        )
        return [name for name in names if name not in self.absent]

    @property
    def settles(self) -> tuple[str, ...]:
        """The command that finishes or undoes it when it was cut off; volumes' operations too."""
        return ("db", "list")


def words(command: str, find: Callable[[str], str]) -> list[str]:
    """The words of a command; `find` gives what is put in for one of PLACES."""
    wanted = {place: find(place) for place in PLACES if f"{{{place}}}" in command}
    return shlex.split(command.format(**wanted))


def _stopped(
    kind: str,
    command: str,
    *,
    is_undone: bool,
    prepare: Sequence[str] = (),
    back: Sequence[str] = (),
    absent: Sequence[str] = (),
    settles_anyway: Sequence[str] = (),
) -> Stopped:
    return Stopped(
        *(kind, command, tuple(prepare), tuple(back)),
        is_undone=is_undone,
        absent=frozenset(absent),
        settles_anyway=frozenset(settles_anyway),
    )


_undone = partial(_stopped, is_undone=True)
_finished = partial(_stopped, is_undone=False)

# Only a new database is asked whether it is to stand alone.
_NOT_FLATTENED = ("flatten-due",)
_SMALL = "--size 1G --memory 512M --cpus 0.5"
_DELETE_COPY = f"db delete {COPY} --now --yes"
_DELETE_VOLUME = f"volume delete {VOLUME} --yes"
# What an operation that was not settled may leave of its own, and what takes it away.
LEFTOVERS = (_DELETE_COPY, f"db trash empty {COPY} --yes", _DELETE_VOLUME)
_CLONE = f"db clone {NAME} {COPY}"
_REPLICA = f"db replica add {NAME} --name {COPY}"
_SNAPSHOT = f"db snapshot create {NAME} cut"
_NO_SNAPSHOT = f"db snapshot delete {NAME} cut --yes"
_USER = f"db user add {NAME} cut"
_NO_USER = f"db user remove {NAME} cut --yes"
_ROLE = f"db role add {NAME} cut_role --grant 'read ON kept'"
_GIVEN = f"db role grant {NAME} cut_role --to cut"
_NO_ROLE = f"db role remove {NAME} cut_role --yes"
_VOLUME = f"volume create {VOLUME} --size 512M"
_ATTACHED = (_VOLUME, f"volume attach {VOLUME} --host h1 --driver volumed")
_SNAPPED = (
    *_ATTACHED,
    f"volume snapshot create {VOLUME} kept",
    f"volume detach {VOLUME}",
)

# In this order on one database; what it costs to come to a state is paid once.
OPERATIONS = [
    _undone("db.golden", f"db create {NAME} {_SMALL}"),
    _finished("db.protect", f"db protect {NAME}", back=[f"db unprotect {NAME}"]),
    _finished("db.binlog-retention", f"db set {NAME} --binlog-retention {{n}}h"),
    _finished(
        "db.recovery-goal",
        f"db set {NAME} --recovery-goal 5s",
        back=[f"db set {NAME} --recovery-goal none"],
    ),
    _finished(
        "db.failover-mode",
        f"db set {NAME} --failover manual",
        back=[f"db set {NAME} --failover automatic"],
    ),
    _finished(
        "db.maintenance-window",
        f"db set {NAME} --maintenance-window 02:00-04:00",
        back=[f"db set {NAME} --maintenance-window none"],
    ),
    _finished("db.label", f"db label {NAME} team=n{{n}}", back=[f"db label {NAME} team-"]),
    _finished(
        "db.growth",
        f"db growth set {NAME} --when 90% --step 10% --up-to 4G",
        back=[f"db growth off {NAME}"],
    ),
    _finished(
        "db.parameter",
        f"db parameter set {NAME} innodb_io_capacity {{n}}",
        back=[f"db parameter reset {NAME} innodb_io_capacity"],
    ),
    _finished(
        "db.limits",
        f"db set {NAME} --memory 640M --cpus 1",
        back=[f"db set {NAME} --memory 512M --cpus 0.5"],
    ),
    _finished("db.resize", f"db resize {NAME} --size {{n}}M"),
    _finished("db.verify", f"db verify {NAME} --tables"),
    _finished("db.restart", f"db restart {NAME}"),
    _finished("db.stop", f"db stop {NAME}", back=[f"db start {NAME}"]),
    _finished("db.start", f"db start {NAME}", prepare=[f"db stop {NAME}"]),
    _finished(
        "db.set",
        f"db set {NAME} --write-path direct",
        back=[f"db set {NAME} --write-path journal"],
    ),
    _finished(
        "db.move",
        f"db move {NAME} --host {{host}}",
        back=[f"db move {NAME} --host {{host}}"],
        absent=["clients"],  # of a database with the address of its host
    ),
    # -- snapshots
    _undone("db.snapshot", _SNAPSHOT),
    _finished("db.snapshot-delete", _NO_SNAPSHOT, prepare=[_SNAPSHOT]),
    _finished(
        "db.snapshot-protect",
        f"db snapshot protect {NAME} cut",
        prepare=[_SNAPSHOT],
        back=[f"db snapshot unprotect {NAME} cut", _NO_SNAPSHOT],
    ),
    _finished(
        "db.snapshot-schedule",
        f"db snapshot schedule {NAME} --every 31d --keep 1",
        back=[f"db snapshot schedule {NAME} --none"],
    ),
    _finished(
        "db.rollback-for-good",
        f"db snapshot rollback {NAME} cut --yes --no-safety-snapshot",
        prepare=[_SNAPSHOT],
        back=[_NO_SNAPSHOT],
        absent=["safety", "stop", "address-away", "detach-again"],
    ),
    _finished(
        "db.rollback",
        f"db snapshot rollback {NAME} cut --yes",
        prepare=[f"db stop {NAME}", _SNAPSHOT],
        back=[
            f"db start {NAME}",
            f"db snapshot delete {NAME} {{safety}} --yes",
            _NO_SNAPSHOT,
        ],
    ),
    # -- users and passwords
    _undone("db.user-add", _USER),
    _finished("db.user-remove", _NO_USER, prepare=[_USER]),
    _finished(
        "db.user-passwd",
        f"db user passwd {NAME} cut --keep-old",
        prepare=[_USER],
        back=[_NO_USER],
    ),
    _finished(
        "db.user-discard",
        f"db user passwd {NAME} cut --discard-old",
        prepare=[_USER, f"db user passwd {NAME} cut --keep-old"],
        back=[_NO_USER],
    ),
    _undone("db.role-add", _ROLE),
    _finished(
        "db.role-change",
        f"db role change {NAME} cut_role --grant 'SELECT, INSERT ON kept'",
        prepare=[_ROLE],
        back=[_NO_ROLE],
    ),
    _finished("db.role-remove", _NO_ROLE, prepare=[_USER, _ROLE, _GIVEN], back=[_NO_USER]),
    _finished(
        "db.role-grant",
        _GIVEN,
        prepare=[_USER, _ROLE],
        back=[_NO_ROLE, _NO_USER],
        absent=["request"],
    ),
    _finished(
        "db.role-revoke",
        f"db role revoke {NAME} cut_role --from cut",
        prepare=[_USER, _ROLE, _GIVEN],
        back=[_NO_ROLE, _NO_USER],
    ),
    _finished("db.rotate", f"db rotate {NAME} --keep-old"),
    _finished(
        "db.rotate-discard",
        f"db rotate {NAME} --discard-old",
        prepare=[f"db rotate {NAME} --keep-old"],
    ),
    _finished(
        "db.certificate-rotate",
        f"db certificate rotate {NAME}",
        back=[f"db certificate retire {NAME}"],
    ),
    _finished(
        "db.certificate-retire",
        f"db certificate retire {NAME}",
        prepare=[f"db certificate rotate {NAME}"],
    ),
    # -- names and the trash
    _finished(
        "db.rename",
        f"db rename {NAME} {COPY}",
        back=[f"db rename {COPY} {NAME}"],
    ),
    _finished("db.trash", f"db delete {NAME} --yes", back=[f"db undelete {NAME}"]),
    _finished(
        "db.undelete",
        f"db undelete {NAME}",
        prepare=[f"db delete {NAME} --yes"],
        back=[f"db start {NAME}"],
    ),
    # -- backups
    _undone("db.backup", f"db backup create {NAME} --to {{shelf}}"),
    _finished(
        "db.backup-schedule",
        f"db backup schedule {NAME} --every 31d --to {{shelf}}",
        back=[f"db backup schedule {NAME} --off"],
    ),
    _undone(
        "db.restore",
        f"db restore {COPY} --from {{shelf}} --time {{moment}}",
        # The database has the size that it had when it was backed up.
        absent=(*_NOT_FLATTENED, "grow"),
    ),
    # -- copies
    _undone("db.clone", _CLONE, absent=_NOT_FLATTENED),
    _undone("db.flatten", f"db flatten {COPY}", prepare=[_CLONE], back=[_DELETE_COPY]),
    _finished(
        "db.purge",
        f"db trash empty {COPY} --yes",
        prepare=[_CLONE, f"db delete {COPY} --yes"],
    ),
    _undone("db.replica-add", _REPLICA, absent=_NOT_FLATTENED),
    _finished(
        "db.replica-schedule",
        f"db replica schedule {COPY} --every 1d",
        prepare=[_REPLICA],
        back=[f"db replica remove {COPY} --yes"],
    ),
    _finished(
        "db.replica-renew",
        f"db replica renew {COPY}",
        prepare=[_REPLICA],
        back=[f"db replica remove {COPY} --yes"],
        # Killed before it removes the old volume, it is undone: what is finished begins there.
        absent=[*_NOT_FLATTENED, "record", "secrets", "snapshot", "compare"],
    ),
    _finished(
        "db.replica-promote",
        f"db replica promote {COPY} --wait",
        prepare=[_REPLICA],
        back=[_DELETE_COPY],
        absent=["fence"],  # its primary can be reached
    ),
    _finished(
        "db.replica-remove",
        f"db replica remove {COPY} --yes",
        prepare=[_REPLICA],
        absent=["snapshot"],
    ),
    # -- volumes
    _undone("volume.create", _VOLUME),
    _finished("volume.delete", _DELETE_VOLUME, prepare=_ATTACHED),
    _finished(
        "volume.resize",
        f"volume resize {VOLUME} --size 1G",
        prepare=_ATTACHED,
        back=[_DELETE_VOLUME],
    ),
    _finished(
        "volume.fence", f"volume fence {VOLUME} --yes", prepare=_ATTACHED, back=[_DELETE_VOLUME]
    ),
    _finished("volume.rotate", f"volume rotate {VOLUME}", prepare=_ATTACHED, back=[_DELETE_VOLUME]),
    _undone(
        "volume.clone",
        f"volume clone {VOLUME}@kept {COPY}",
        prepare=_SNAPPED,
        back=[_DELETE_VOLUME],
    ),
    _finished(
        "volume.rollback",
        f"volume snapshot rollback {VOLUME} kept --yes",
        prepare=_SNAPPED,
        back=[f"volume snapshot delete {VOLUME} kept --yes", _DELETE_VOLUME],
    ),
    _undone(
        "volume.replay",
        f"volume replay {VOLUME}",
        prepare=[
            f"{_VOLUME} --write-path journal",
            f"volume attach {VOLUME} --host h1 --driver volumed",
            f"volume fence {VOLUME} --yes",
        ],
        back=[_DELETE_VOLUME],
        # What is left of the fenced daemon is cleared away, and the volume gets its key again.
        # The first two are of a lab, `hosts` has both on a site.
        settles_anyway=["machine", "daemons", "hosts", "users", "files"],
    ),
]
# Where others are killed on a lab, or why they are not.
ELSEWHERE = {
    "db.create": "test_databases_interrupted",
    "db.delete": "test_databases_interrupted",
    "db.upgrade": "test_upgrades: a server of another version has an image of its own",
    "db.migrate": "test_migrate: it takes a second pool",
    "volume.migrate": "test_migrate: it takes a second pool",
    "volume.move-journal": "test_migrate: it takes a second pool",
    "db.failover": "test_read_endpoints: it takes a lost host",
    "db.scratch": "of a benchmark's own",
    "db.scratch-stop": "of a benchmark's own",
    "db.grow": "the controller's own, which looks again in seconds",
    "db.close": "the controller's own, which looks again in seconds",
    "db.open": "the controller's own, which looks again in seconds",
    "db.read-endpoint": "the controller's own, which looks again in seconds",
}
