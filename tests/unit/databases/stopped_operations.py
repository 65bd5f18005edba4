"""Every kind of operation on a database as it is stopped by tests: what is there, what is done.

Between them the cases meet every step of every kind; `test_every_step` fails if they do not.
"""

from __future__ import annotations

from grampus.core.units import GIB, MIB
from grampus.core.weekly_window import parse_weekly_window
from grampus.databases.backup.backup_schedules import BackupSchedules
from grampus.databases.backup.decide_schedule import BackupSchedule
from grampus.databases.clones.decide_clone import CloneRequest
from grampus.databases.clones.golden import GoldenVolumes
from grampus.databases.failover.failovers import DatabaseFailovers
from grampus.databases.layout import scratch_daemon_name
from grampus.databases.live.migrating import DatabaseMigrations
from grampus.databases.request import CreateRequest
from grampus.databases.snapshots.decide_retention import SnapshotSchedule
from grampus.databases.snapshots.snapshot_schedules import SnapshotSchedules
from grampus.databases.upgrades.upgrading import DatabaseUpgrades
from grampus.databases.users.decide_role_grants import parse_grant
from tests.fakes.interruption import in_turn
from tests.fakes.pools_and_images import FakeImages

from .backup.existing import place
from .backup.existing import write_rows as write_shop
from .backup.replay_world import ReplayWorld
from .growth.growth_world import RULE, GrowthWorld
from .live.live_world import LiveWorld
from .port_worlds import PortWorld
from .stopped_case import (
    Case,
    certificates,
    clones,
    make_case,
    names,
    nothing,
    operations,
    roles,
    rotation,
    snapshots,
    trash,
    users,
    verification,
    write_rows,
)
from .stopped_replicas import REPLICA_CASES
from .world import World

# -- what is done -------------------------------------------------------------------------------


def _make_golden(world: World) -> None:
    """Alone: a creation that fails at it goes on without."""
    service = world.service()
    spec = service.plan_create(CreateRequest(name="demo", size_bytes=10 * GIB))
    GoldenVolumes(service.operations, FakeImages()).ensure(service.plan_golden(spec))


def _put_snapshot_schedule(world: World) -> None:
    SnapshotSchedules(operations(world)).put("demo", SnapshotSchedule(every_s=3600, keep=2))


def _put_backup_schedule(world: ReplayWorld) -> None:
    schedule = BackupSchedule(place=place(world.shelf), every_s=3600)
    BackupSchedules(operations(world)).put("demo", schedule)


def _purge(world: World) -> None:
    assert trash(world).purge_all(trash(world).plan_purge("demo")) == []


def _start_if_there(world: World) -> None:
    """A database that is back from the trash is started by an operation of its own."""
    if any(view.status != "running" for view in world.service().list()):
        world.service().start("demo")


def _go_on_migrating(world: World) -> None:
    """A migration of a volume that was stopped half-way waits until somebody goes on with it."""
    if world.volumes.migrations.find("demo") is not None:
        DatabaseMigrations(operations(world)).migrate("demo", "archive")


def _fail_over(world: World) -> None:
    DatabaseFailovers(operations(world)).fail_over("demo")


def _verify(world: World) -> None:
    verification(world).verify("demo", scrub=True, tables=False, repair=False)


def _upgrade(world: World) -> None:
    DatabaseUpgrades(operations(world), FakeImages()).upgrade("demo", None)


def _roll_back(world: World, *, with_safety: bool) -> None:
    snapshots(world).rollback("demo", "before", with_safety=with_safety)


def _stop(world: World) -> None:
    world.service().stop("demo")


def _delete(world: World) -> None:
    world.service().delete("demo")


def _add_role(world: World) -> None:
    roles(world).add("demo", "desk", [parse_grant("write ON shop")])


def _grant(world: World, *, at_login: bool) -> None:
    roles(world).grant("demo", "desk", "reports", at_login=at_login)


def _passwd(world: World, *, keep: bool) -> None:
    users(world).change_password("demo", "reports", keeps_former=keep)


def _set(world: World) -> None:
    world.service().set_write_path("demo", "journal")


def _create_flattened(world: World) -> None:
    service = world.service()
    request = CreateRequest(name="demo", size_bytes=10 * GIB, write_path="direct")
    service.create(service.plan_create(request), flatten=True)


# -- what is there before -----------------------------------------------------------------------


def _old(world: World) -> None:
    world.create(version="8.4")
    write_rows(world, "acknowledged")


def _big(world: World) -> None:
    world.create(memory_bytes=GIB)
    write_rows(world, "acknowledged")


def _end_scratch(world: World) -> None:
    """The server of a scratch instance ended; a running one keeps many operations away."""
    for host in world.hosts.values():
        daemon = host.daemons.get(scratch_daemon_name("demo"))
        if daemon is not None:
            daemon.state = "stopped"


def _lose(world: World) -> None:
    """Its host is cut off, and knows nothing of what happens."""
    world.hosts["h1"].up = False


def _change_parameters(world: LiveWorld) -> None:
    world.parameters().set("demo", "innodb_io_capacity", "900")
    world.parameters().set("demo", "innodb_page_cleaners", "8")


def _make_due_to_grow(world: GrowthWorld) -> None:
    world.growth().put_rule("demo", RULE)
    world.use(8 * GIB)


def _fill(world: GrowthWorld) -> None:
    world.use(10 * GIB - 100 * MIB)


def _find_room_again(world: GrowthWorld) -> None:
    world.look()
    assert world.is_read_only()
    world.use(GIB)


def _with_more_rows(world: ReplayWorld) -> None:
    world.fill()
    world.clock.sleep(3600)
    write_shop(world, "four")


_created = in_turn(lambda w: w.create(), lambda w: write_rows(w, "acknowledged"))
_stopped = in_turn(_created, _stop)
# The golden volume is there, made for a database that is gone.
_golden = in_turn(lambda w: w.create("first"), lambda w: w.service().delete("first"))
_with_scratch = in_turn(_created, lambda w: w.service().ensure_local_instance("demo"))
_with_left_scratch = in_turn(_with_scratch, _end_scratch)
_with_user = in_turn(_created, lambda w: users(w).add("demo", "reports", "read"))
_with_role = in_turn(_with_user, _add_role)
_with_given_role = in_turn(_with_role, lambda w: _grant(w, at_login=True))
_with_former_password = in_turn(_with_user, lambda w: _passwd(w, keep=True))
_with_former_passwords = in_turn(_created, lambda w: rotation(w).rotate("demo", keeps_former=True))
_with_new_certificates = in_turn(_created, lambda w: certificates(w).rotate("demo"))
_trashed = in_turn(_with_user, lambda w: trash(w).trash("demo"))
# Rows `acknowledged` are in the snapshot `before`; rows `later` came.
_snapped = in_turn(
    _created, lambda w: snapshots(w).create("demo", "before"), lambda w: write_rows(w, "later")
)
_snapped_and_stopped = in_turn(_snapped, _stop)
_scheduled = in_turn(_created, _put_snapshot_schedule)
_lost = in_turn(_created, _lose)
_lost_while_stopped = in_turn(_stopped, _lose)
_old_and_stopped = in_turn(_old, _stop)
_with_parameters = in_turn(_created, _change_parameters)
_due_to_grow = in_turn(_created, _make_due_to_grow)
_nearly_full = in_turn(_created, _fill)
_with_room_again = in_turn(_nearly_full, _find_room_again)

# -- the cases ----------------------------------------------------------------------------------

OTHER = [parse_grant("SELECT, ALTER ON shop")]
CASES: list[Case] = [
    make_case("golden", nothing, _make_golden, "gone"),
    make_case(
        "golden-first", nothing, lambda w: w.create(), "gone", kind="golden", no_way_back="volume"
    ),
    make_case("create", _golden, lambda w: w.create(), "gone"),
    make_case("create-flattened", _golden, _create_flattened, "gone", kind="create"),
    make_case("create-whole", nothing, lambda w: w.create(), "gone", kind="create", make=LiveWorld),
    make_case("clone", _created, lambda w: clones(w).clone(CloneRequest("demo", "copy")), "gone"),
    make_case(
        "clone-snapshot",
        _snapped,
        lambda w: clones(w).clone(CloneRequest("demo", "copy", snapshot="before")),
        "gone",
        kind="clone",
    ),
    make_case(
        "clone-copied",
        _created,
        lambda w: clones(w).clone(
            CloneRequest("demo", "copy", write_path="journal", external_log=True)
        ),
        "gone",
        kind="clone",
    ),
    make_case("flatten", _created, lambda w: clones(w).flatten("demo"), "either"),
    make_case("delete", _created, _delete, "done"),
    make_case("delete-scratch", _with_scratch, _delete, "done", kind="delete"),
    make_case("start", _stopped, lambda w: w.service().start("demo"), "done"),
    make_case("stop", _created, _stop, "done"),
    make_case("protect", _created, lambda w: w.service().protect("demo", True), "done"),
    make_case(
        "binlog-retention", _created, lambda w: w.service().set_retention("demo", 86400), "done"
    ),
    make_case(
        "failover-mode", _created, lambda w: w.service().set_failover("demo", "manual"), "done"
    ),
    make_case(
        "maintenance-window",
        _created,
        lambda w: w.service().set_maintenance_window(
            "demo", parse_weekly_window("Sun 02:00-04:00")
        ),
        "done",
    ),
    make_case("resize", _created, lambda w: w.service().resize("demo", 20 * GIB), "done"),
    make_case("set", _created, _set, "done"),
    make_case("set-stopped", _stopped, _set, "done", kind="set"),
    make_case(
        "set-max-lag",
        _created,
        lambda w: w.service().set_write_path("demo", "cache", max_lag_ms=20),
        "done",
        kind="set",
    ),
    make_case(
        "set-journal-memory",
        lambda w: w.create(write_path="journal"),
        lambda w: w.service().set_write_path("demo", None, journal_memory_bytes=64 * MIB),
        "done",
        kind="set",
    ),
    make_case(
        "set-journal-pool",
        lambda w: w.create(write_path="journal"),
        lambda w: w.service().set_write_path("demo", None, journal_pool="flash"),
        "done",
        kind="set",
    ),
    make_case("scratch", _created, lambda w: w.service().ensure_local_instance("demo"), "gone"),
    make_case(
        "scratch-stop",
        _with_scratch,
        lambda w: w.service().ensure_local_instance_absent("demo"),
        "done",
    ),
    *REPLICA_CASES,
    # -- growth
    make_case(
        "growth", _created, lambda w: w.growth().put_rule("demo", RULE), "done", make=GrowthWorld
    ),
    make_case("grow", _due_to_grow, lambda w: w.look(), "done", make=GrowthWorld),
    make_case("close", _nearly_full, lambda w: w.look(), "gone", make=GrowthWorld),
    make_case("open", _with_room_again, lambda w: w.look(), "done", make=GrowthWorld),
    # -- backups
    make_case(
        "backup",
        _with_more_rows,
        ReplayWorld.back_up,
        "either",  # what is whole stays
        make=ReplayWorld,
        no_way_back="data",
    ),
    make_case("restore", ReplayWorld.fill, lambda w: w.restore(), "gone", make=ReplayWorld),
    make_case(
        "restore-moment",
        ReplayWorld.fill,
        lambda w: w.restore(w.moment),
        "gone",
        kind="restore",
        make=ReplayWorld,
    ),
    make_case("backup-schedule", ReplayWorld.fill, _put_backup_schedule, "done", make=ReplayWorld),
    # -- changes of a running one
    make_case(
        "recovery-goal",
        _created,
        lambda w: w.live().set_recovery_goal("demo", 5),
        "done",
        make=LiveWorld,
    ),
    make_case(
        "limits",
        _created,
        lambda w: w.live().set_limits("demo", memory_bytes=GIB, cpus=1.5),
        "done",
        make=LiveWorld,
    ),
    make_case(
        "limits-less",
        _big,
        lambda w: w.live().set_limits("demo", memory_bytes=512 * MIB),
        "done",
        kind="limits",
        make=LiveWorld,
    ),
    make_case(
        "limits-stopped",
        _stopped,
        lambda w: w.live().set_limits("demo", memory_bytes=GIB),
        "done",
        kind="limits",
        make=LiveWorld,
    ),
    make_case(
        "parameter",
        _created,
        lambda w: w.parameters().set("demo", "innodb_io_capacity", "900"),
        "done",
        make=LiveWorld,
    ),
    make_case(
        "parameter-later",
        _created,
        lambda w: w.parameters().set("demo", "innodb_page_cleaners", "8"),
        "done",
        kind="parameter",
        make=LiveWorld,
    ),
    make_case(
        "parameter-reset",
        _with_parameters,
        lambda w: w.parameters().reset("demo", "innodb_io_capacity"),
        "done",
        kind="parameter",
        make=LiveWorld,
    ),
    make_case(
        "restart",
        _with_parameters,
        lambda w: w.live().restart("demo"),
        "done",
        make=LiveWorld,
        no_way_back="server",  # what keeps it from starting must be mended first
    ),
    make_case("move", _created, lambda w: w.moves().move("demo", "h2"), "done", make=LiveWorld),
    make_case(
        "move-at-ports",
        _created,
        lambda w: w.moves().move("demo", "h2"),
        "done",
        kind="move",
        make=PortWorld,
    ),
    make_case(
        "move-scratch",
        _with_left_scratch,
        lambda w: w.moves().move("demo", "h2"),
        "done",
        kind="move",
        make=LiveWorld,
        no_way_back="tidy",
    ),
    make_case(
        "move-stopped",
        _stopped,
        lambda w: w.moves().move("demo", "h2"),
        "done",
        kind="move",
        make=LiveWorld,
    ),
    make_case(
        "migrate",
        _created,
        lambda w: DatabaseMigrations(operations(w)).migrate("demo", "archive"),
        "done",
        settle=_go_on_migrating,
        is_silent=True,
    ),
    # -- users and passwords
    make_case("user-add", _created, lambda w: users(w).add("demo", "reports", "write"), "gone"),
    make_case("user-remove", _with_user, lambda w: users(w).remove("demo", "reports"), "done"),
    make_case("user-passwd", _with_user, lambda w: _passwd(w, keep=False), "done"),
    make_case(
        "user-passwd-keep", _with_user, lambda w: _passwd(w, keep=True), "done", kind="user-passwd"
    ),
    make_case(
        "user-discard",
        _with_former_password,
        lambda w: users(w).discard_former("demo", "reports"),
        "done",
    ),
    make_case("role-add", _created, _add_role, "gone"),
    make_case(
        "role-change", _with_given_role, lambda w: roles(w).change("demo", "desk", OTHER), "done"
    ),
    make_case(
        "role-remove",
        _with_given_role,
        lambda w: roles(w).remove("demo", "desk"),
        "done",
        no_way_back="role",  # what it was given is known to the server alone
    ),
    make_case("role-grant", _with_role, lambda w: _grant(w, at_login=True), "done"),
    make_case(
        "role-grant-request",
        _with_given_role,
        lambda w: _grant(w, at_login=False),
        "done",
        kind="role-grant",
    ),
    make_case(
        "role-revoke",
        _with_given_role,
        lambda w: roles(w).revoke("demo", "desk", "reports"),
        "done",
    ),
    make_case("rotate", _created, lambda w: rotation(w).rotate("demo", keeps_former=False), "done"),
    make_case(
        "rotate-keep",
        _with_left_scratch,
        lambda w: rotation(w).rotate("demo", keeps_former=True),
        "done",
        kind="rotate",
    ),
    make_case(
        "rotate-discard",
        _with_former_passwords,
        lambda w: rotation(w).discard_former("demo"),
        "done",
    ),
    make_case("certificate-rotate", _created, lambda w: certificates(w).rotate("demo"), "done"),
    make_case(
        "certificate-retire",
        _with_new_certificates,
        lambda w: certificates(w).retire("demo"),
        "done",
    ),
    # -- lost hosts
    make_case("failover", _lost, _fail_over, "either", make=LiveWorld),
    make_case("failover-at-ports", _lost, _fail_over, "either", kind="failover", make=PortWorld),
    make_case(
        "failover-stopped",
        _lost_while_stopped,
        _fail_over,
        "done",
        kind="failover",
        make=LiveWorld,
    ),
    # -- names and the trash
    make_case("label", _created, lambda w: names(w).label("demo", ["team=web"]), "done"),
    make_case("rename", _with_user, lambda w: names(w).rename("demo", "store"), "done"),
    make_case(
        "rename-scratch",
        _with_left_scratch,
        lambda w: names(w).rename("demo", "store"),
        "done",
        kind="rename",
        no_way_back="scratch",  # nobody misses it
    ),
    make_case(
        "rename-stopped",
        _stopped,
        lambda w: names(w).rename("demo", "store"),
        "done",
        kind="rename",
    ),
    make_case("trash", _with_user, lambda w: trash(w).trash("demo"), "done"),
    make_case(
        "trash-scratch", _with_scratch, lambda w: trash(w).trash("demo"), "done", kind="trash"
    ),
    make_case(
        "undelete", _trashed, lambda w: trash(w).restore("demo"), "done", settle=_start_if_there
    ),
    make_case("purge", _trashed, _purge, "done"),
    # -- snapshots
    make_case("snapshot", _created, lambda w: snapshots(w).create("demo", "before"), "gone"),
    make_case("snapshot-delete", _snapped, lambda w: snapshots(w).delete("demo", "before"), "done"),
    make_case(
        "snapshot-protect",
        _snapped,
        lambda w: snapshots(w).protect("demo", "before", protected=True),
        "done",
    ),
    make_case("snapshot-schedule", _created, _put_snapshot_schedule, "done"),
    make_case(
        "snapshot-schedule-off",
        _scheduled,
        lambda w: SnapshotSchedules(operations(w)).put("demo", None),
        "done",
        kind="snapshot-schedule",
    ),
    make_case(
        "rollback",
        _snapped,
        lambda w: _roll_back(w, with_safety=True),
        "done",
        keeps="before-rollback-",
    ),
    make_case(
        "rollback-stopped",
        _snapped_and_stopped,
        lambda w: _roll_back(w, with_safety=True),
        "done",
        kind="rollback",
        keeps="before-rollback-",
    ),
    make_case("rollback-for-good", _snapped, lambda w: _roll_back(w, with_safety=False), "done"),
    make_case(
        "rollback-for-good-stopped",
        _snapped_and_stopped,
        lambda w: _roll_back(w, with_safety=False),
        "done",
        kind="rollback-for-good",
    ),
    # -- upgrades and verification
    make_case("upgrade", _old, _upgrade, "done", no_way_back="upgrade"),
    make_case(
        "upgrade-stopped",
        _old_and_stopped,
        _upgrade,
        "done",
        kind="upgrade",
        no_way_back="upgrade",
    ),
    make_case("verify", _created, _verify, "done"),
]
