from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError
from grampus.core.units import GIB, MIB
from grampus.databases.layout import decide_daemon_uid
from grampus.databases.model import DatabaseRecord
from grampus.databases.request import CreateRequest
from grampus.hosts.port import HostUnreachableError
from grampus.state.locks import hold_lock
from grampus.volumes.model import WritePath
from tests.fakes.hosts import FakeFile
from tests.unit.operation_runner import planned

from .world import LAB, World

DEMO = PurePosixPath("/data/databases/demo")


def test_create_answers_with_what_a_client_needs(world: World) -> None:
    made = world.create()
    password = made.endpoint.password.get_secret_value()
    assert (made.endpoint.user, made.endpoint.address, made.endpoint.port) == (
        "demo",
        "10.9.0.10",
        3306,
    )
    option_file = world.service().option_file("demo")
    assert made.client_command == f"mysql --defaults-extra-file={option_file}"
    assert password in option_file.read_text()
    assert option_file.stat().st_mode & 0o777 == 0o600
    assert made.record.server_version == "9.7.4"
    assert made.record.phase == "ready"
    view = world.service().show("demo")
    assert view.status == "running"
    assert view.volume is not None
    assert view.volume.spec.image == "demo.1/db-demo"
    assert password not in repr(made)


def test_the_daemon_runs_as_its_own_user_within_its_limits(world: World) -> None:
    world.create(flavour="mariadb", memory_bytes=GIB, cpus=0.5)
    daemon = world.hosts["h1"].daemons["mysqld-demo"]
    spec, limits = daemon.spec, daemon.limits
    own = decide_daemon_uid("10.9.0.10")
    assert (spec.uid, spec.gid, spec.privileged) == (own, own, False)
    assert (limits.memory_bytes, limits.cpus) == (GIB, 0.5)
    assert spec.image == "trixie-0123"
    assert spec.argv == ("/usr/sbin/mariadbd", f"--defaults-file={DEMO}/my.cnf")
    assert spec.binds[0].read_only


def test_no_secret_is_on_a_command_line_or_readable_by_others(world: World) -> None:
    made = world.create()
    password = made.endpoint.password.get_secret_value()
    host = world.hosts["h1"]
    assert not any(password in word for argv in host.commands for word in argv)
    holders = {path: file for path, file in host.below(DEMO).items() if password in file.content}
    assert [(str(p), f.mode, f.uid) for p, f in holders.items()] == [
        (f"{DEMO}/client.cnf", 0o600, 64050)
    ]
    tls = host.below(DEMO / "tls")
    assert {path.name for path in tls} == {
        "ca.pem",
        "server-cert.pem",
        "server-key.pem",
        "client-cert.pem",
        "client-key.pem",
    }, "the authority's own key is thrown away"
    assert {(file.mode, file.uid) for file in tls.values()} == {(0o600, 64050)}
    state = world.home.store_file.parent.glob("state.db*")
    assert not any(password.encode() in file.read_bytes() for file in state)


def test_the_image_knows_whose_it_is(world: World) -> None:
    world.create(protect=True)
    facts = world.volumes.images["demo"].facts
    assert facts["database"] == "demo"
    assert facts["owner"] == "demo"
    assert facts["size-bytes"] == str(10 * GIB)
    assert facts["protected"] == "yes"
    world.service().protect("demo", False)
    assert world.volumes.images["demo"].facts["protected"] == "no"


def test_each_database_has_its_own_address_and_the_emptiest_host(world: World) -> None:
    made = [world.create(name) for name in ("a", "b", "c")]
    assert [m.record.spec.host for m in made] == ["h1", "h2", "h1"]
    assert [m.record.spec.address for m in made] == ["10.9.0.10", "10.9.0.11", "10.9.0.12"]
    assert len({m.record.spec.server_id for m in made}) == 3
    with pytest.raises(RefusedError) as caught:
        world.create("d")
    assert caught.value.code == "no-address"
    world.service().delete("b")
    assert world.create("d").record.spec.address == "10.9.0.11"


def test_an_address_taken_since_the_plan_is_chosen_anew(world: World) -> None:
    service = world.service()
    planned = service.plan_create(CreateRequest(name="late", size_bytes=GIB))
    world.create("early")
    assert planned.address == "10.9.0.10"
    made = service.create(planned)
    assert made.record.spec.address == "10.9.0.11"
    assert made.record.spec.server_id != planned.server_id


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        ({"name": "demo"}, "name-taken"),
        ({"name": "x", "memory_bytes": 25 * GIB}, "too-big"),
        ({"name": "x", "cpus": 3.0}, "too-big"),
    ],
)
def test_plans_that_are_refused(world: World, wishes: dict[str, object], code: str) -> None:
    world.create()
    before = world.inventory()
    with pytest.raises(RefusedError) as caught:
        world.create(**wishes)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert world.inventory() == before


def test_a_volume_of_that_name_is_not_taken_over(world: World) -> None:
    world.create("other")
    world.volumes.images["demo"] = world.volumes.images["other"]
    with pytest.raises(RefusedError, match="volume named 'demo'"):
        world.create("demo")


def test_a_full_pool_an_unknown_host_and_a_host_that_is_down(world: World) -> None:
    with pytest.raises(NotFoundError):
        world.create(host="h9")
    world.hosts["h2"].up = False
    with pytest.raises(HostUnreachableError):
        world.create(host="h2")
    assert world.create("a").record.spec.host == "h1"
    assert world.create("b").record.spec.host == "h1"
    world.cluster.full = True
    with pytest.raises(RefusedError, match="full"):
        world.create()


@pytest.mark.parametrize("cpus", [0.5, 2.0])
def test_a_copied_server_has_its_own_cpus_once_it_answers(world: World, cpus: float) -> None:
    spec = world.create("a", cpus=cpus).record.spec
    assert world.hosts[spec.host].daemons["mysqld-a"].limits.cpus == cpus


def test_a_database_goes_to_the_pool_that_is_named(world: World) -> None:
    created = world.create("a", pool="databases-disks")
    assert created.record.spec.pool == "databases-disks"
    assert world.volumes.get("a").spec.pool == "databases-disks"
    assert world.create("b").record.spec.pool == "databases"
    with pytest.raises(NotFoundError, match="Did you mean 'databases-disks'"):
        world.create("c", pool="databases-disk")


def test_names_that_are_not_there(world: World) -> None:
    world.create()
    service = world.service()
    with pytest.raises(NotFoundError, match="Did you mean 'demo'"):
        service.show("demmo")
    for name in ("nix", "../../etc/x", ""):
        for act in (service.show, service.delete, service.start, service.stop, service.endpoint):
            with pytest.raises(NotFoundError):
                act(name)


def test_a_failed_initialisation_says_why_and_leaves_nothing(world: World) -> None:
    before = world.inventory()
    host = world.hosts["h1"]
    host.init_failure = (
        "[Note] A temporary password is generated for root@localhost: x\n"
        "[ERROR] No space left on device"
    )
    with pytest.raises(GrampusError) as caught:
        world.create()
    assert caught.value.code == "initialise-failed"
    assert "No space left on device" in str(caught.value)
    assert "temporary password" not in str(caught.value)
    assert world.inventory() == before


def test_a_server_that_ends_says_why_and_leaves_nothing(world: World) -> None:
    before = world.inventory()
    world.hosts["h1"].serve_failure = "[ERROR] [MY-000067] unknown variable 'x=1'"
    with pytest.raises(GrampusError, match="unknown variable"):
        world.create()
    assert world.inventory() == before


def test_a_server_that_lets_nobody_in_is_given_up(world: World) -> None:
    world.create()
    service = world.service()
    service.stop("demo")
    image = world.volumes.images["demo"]
    image.files[PurePosixPath("data/accounts")] = FakeFile("")
    with pytest.raises(GrampusError) as caught:
        service.start("demo")
    assert caught.value.code == "access-denied"
    assert service.show("demo").status == "stopped"
    assert world.inventory()["addresses"] == []
    assert world.inventory()["images"] == ["demo:False"]


def test_a_half_made_data_directory_is_made_anew_and_a_whole_one_never(world: World) -> None:
    world.create()
    image = world.volumes.images["demo"]
    world.hosts["h1"].files[PurePosixPath("/data/volumes/demo/data/t1")] = FakeFile("rows")
    service = world.service()
    service.stop("demo")
    assert image.files[PurePosixPath("data/t1")].content == "rows"
    commands = len(world.hosts["h1"].commands)
    service.start("demo")
    assert not any("openssl" in argv for argv in world.hosts["h1"].commands[commands:])
    assert world.hosts["h1"].files[PurePosixPath("/data/volumes/demo/data/t1")].content == "rows"


def test_stop_frees_the_host_and_start_brings_it_back(world: World) -> None:
    made = world.create()
    running = world.inventory()
    service = world.service()
    service.stop("demo")
    service.stop("demo")
    assert service.show("demo").status == "stopped"
    assert world.inventory()["addresses"] == world.inventory()["daemons"] == []
    with pytest.raises(RefusedError) as caught:
        service.client_argv("demo")
    assert caught.value.code == "not-running"
    service.start("demo")
    service.start("demo")
    assert world.inventory() == running
    assert service.endpoint("demo") == made.endpoint


def test_connect_runs_the_client_in_the_daemon(world: World) -> None:
    world.create()
    command = world.service().client_argv("demo", "SELECT 1")
    assert (command.host, command.daemon) == ("h1", "mysqld-demo")
    assert command.argv == ("mysql", f"--defaults-file={DEMO}/client.cnf", "--unbuffered")
    assert command.stdin == "SELECT 1\n", "SQL may hold anybody's data: it is on no command line"


def test_protected_databases_are_not_deleted(world: World) -> None:
    world.create()
    service = world.service()
    service.protect("demo", True)
    before = world.inventory()
    with pytest.raises(RefusedError) as caught:
        service.delete("demo")
    assert caught.value.code == "protected"
    assert world.inventory() == before
    service.protect("demo", False)
    service.delete("demo")


def test_delete_leaves_nothing(world: World) -> None:
    before = world.inventory()
    world.create("kept")
    kept = world.inventory()
    world.create("demo")
    service = world.service()
    service.ensure_local_instance("demo")
    service.delete("demo")
    assert world.inventory() == kept
    service.delete("kept")
    assert world.inventory() == before


def test_a_host_that_is_down_is_seen_and_not_worked_on(world: World) -> None:
    world.create()
    world.hosts["h1"].up = False
    service = world.service()
    assert service.show("demo").status == "host-down"
    before = world.journal.unfinished(LAB)
    with pytest.raises(HostUnreachableError):
        service.start("demo")
    service.stop("demo")  # noted alone: it is stopped when the host is back
    assert service.get("demo").desired == "stopped"
    assert "mysqld-demo" in world.hosts["h1"].daemons
    assert world.journal.unfinished(LAB) == before == []


def test_after_a_restart_what_shall_run_runs(world: World) -> None:
    for name in ("a", "b"):
        world.create(name, host="h1")
    service = world.service()
    service.stop("b")
    before = world.inventory()
    world.hosts["h1"].crash()
    assert service.show("a").status == "failed"
    assert world.service().ensure_running() == []
    assert world.inventory() == before


def test_start_mends_a_server_whose_driver_was_killed(world: World) -> None:
    world.create()
    before = world.inventory()
    world.volumes.dead_drivers.add("demo")
    service = world.service()
    for _ in ("while its server runs on", "once it has noticed"):
        assert service.show("demo").status == "volume-lost"
        with pytest.raises(RefusedError, match=r"`grampus db start demo` starts it"):
            service.client_argv("demo")
        world.hosts["h1"].ensure_daemon_absent("mysqld-demo", kill=True)
    service.start("demo")
    assert service.show("demo").status == "running"
    assert world.inventory() == before


def test_suspend_and_ensure_running_keep_what_the_user_wants(world: World) -> None:
    for name in ("a", "b"):
        world.create(name, host="h1")
    world.service().ensure_local_instance("a")
    service = world.service()
    service.stop("b")
    assert service.suspend() == []
    assert world.inventory()["daemons"] == []
    assert world.inventory()["images"] == ["a:False", "b:False"]
    assert service.ensure_running() == []
    assert [view.status for view in service.list()] == ["running", "stopped"]


def test_one_database_that_cannot_start_does_not_keep_the_others_down(world: World) -> None:
    world.create("a", host="h1")
    world.create("b", host="h2")
    for host in world.hosts.values():
        host.crash()
    world.hosts["h1"].serve_failure = "[ERROR] corrupted"
    problems = world.service().ensure_running()
    assert len(problems) == 1
    assert "a could not be started" in problems[0]
    assert world.service().show("b").status == "running"


def test_the_scratch_instance_is_the_same_server_on_the_hosts_own_disk(world: World) -> None:
    made = world.create()
    service = world.service()
    endpoint = service.ensure_local_instance("demo")
    assert service.ensure_local_instance("demo") == endpoint
    host = world.hosts["h1"]
    local, own = host.daemons["mysqld-local-demo"], host.daemons["mysqld-demo"]
    assert local.limits == own.limits
    assert local.spec.image == own.spec.image
    assert local.spec.binds[1].source == "/data/scratch/demo/volume"
    assert endpoint.address == "10.9.0.11"
    assert endpoint.password == made.endpoint.password
    # Nobody's code runs in the scratch instance, and nobody needs its binary logs.
    kept_out = ("event_scheduler", "init_connect", "binlog_expire_logs_seconds")
    different = ("bind_address", "admin_address", "server_id", "ssl_", *kept_out)
    configs = [
        [
            line
            for line in host.files[PurePosixPath(f"/data/{where}/demo/my.cnf")].content.split("\n")
            if not line.startswith(different)
        ]
        for where in ("databases", "scratch")
    ]
    assert configs[0] == configs[1]
    service.ensure_local_instance_absent("demo")
    service.ensure_local_instance_absent("demo")
    assert "mysqld-local-demo" not in host.daemons
    assert "10.9.0.11" not in host.addresses
    assert service.ensure_local_instance("demo") == endpoint


def test_a_busy_database_is_left_to_whoever_works_on_it(world: World) -> None:
    world.create()
    with hold_lock(world.home, f"db.{LAB}.demo", world.clock):
        with pytest.raises(RefusedError) as caught:
            world.service().stop("demo")
        assert caught.value.code == "busy"
        assert world.service().show("demo").status == "running"


def test_a_plan_can_be_read_before_it_is_carried_out(world: World) -> None:
    before = world.inventory()
    service = world.service()
    spec = service.plan_create(CreateRequest(name="demo", size_bytes=GIB, memory_bytes=512 * MIB))
    lines = planned(world.runner, lambda: service.create(spec))
    golden = service.plan_golden(spec).name
    assert (
        lines[0] == f"Create the golden volume {golden} of 576 MiB, for all databases of this type"
    )
    assert f"Clone a volume of 1 GiB in pool databases from {golden}" in lines
    assert world.inventory() == before
    assert not world.volumes.images
    world.create()
    assert planned(world.runner, lambda: service.delete("demo"))[0] == "Mark demo as deleting"
    assert service.show("demo").status == "running"


def test_resize_keeps_volume_record_and_facts_in_step(world: World) -> None:
    world.create()
    world.service().resize("demo", 20 * GIB)
    assert world.service().get("demo").spec.size_bytes == 20 * GIB
    assert world.volumes.get("demo").spec.size_bytes == 20 * GIB
    assert world.volumes.images["demo"].facts["size-bytes"] == str(20 * GIB)
    assert world.service().show("demo").status == "running"


def test_what_the_volume_refuses_is_refused_before_anything_is_changed(world: World) -> None:
    world.create()
    with pytest.raises(RefusedError, match="cannot shrink"):
        world.service().resize("demo", GIB)
    with pytest.raises(NotFoundError):
        world.service().resize("none", GIB)
    assert world.service().get("demo").spec.size_bytes == 10 * GIB
    assert world.journal.unfinished("t") == []


def test_a_database_is_made_with_its_write_path(world: World) -> None:
    world.create(write_path="journal")
    assert world.volumes.get("demo").spec.write_path == "journal"
    assert world.volumes.images["demo"].facts["write-path"] == "journal"
    world.create("other")
    assert world.volumes.get("other").spec.write_path == "direct"


@pytest.mark.parametrize(
    ("without_volumed", "path"), [(set(), "journal"), ({"h2"}, "journal"), ({"h1"}, "direct")]
)
def test_a_write_path_that_is_not_named_is_the_journal_if_the_host_serves_it(
    world: World, without_volumed: set[str], path: str
) -> None:
    world.volumes.hosts_without_volumed = without_volumed
    request = CreateRequest("demo", 10 * GIB, host="h1")
    assert world.service().plan_create(request).write_path == path


def test_a_database_keeps_its_max_lag_and_its_volume_gets_it(world: World) -> None:
    world.create(write_path="cache", max_lag_ms=50)
    spec = world.volumes.get("demo").spec
    assert (spec.write_path, spec.max_lag_ms) == ("cache", 50)
    assert world.volumes.images["demo"].facts["max-lag-ms"] == "50"
    assert world.service().get("demo").spec.max_lag_ms == 50
    before = world.inventory()
    with pytest.raises(UsageError, match="has no max-lag"):
        world.create("other", write_path="journal", max_lag_ms=50)
    with pytest.raises(UsageError, match="has no max-lag"):
        world.service().plan_write_path("demo", "journal", max_lag_ms=50)
    assert world.inventory() == before


@pytest.mark.parametrize(
    ("path", "lag_ms", "expected"),
    [
        ("cache", 20, ("cache", 20)),
        (None, 20, ("cache", 20)),
        ("cache", None, None),
        (None, 50, None),
        ("journal", None, ("journal", 100)),
    ],
)
def test_set_changes_path_and_max_lag(
    world: World, path: WritePath | None, lag_ms: int | None, expected: tuple[str, int] | None
) -> None:
    world.create(write_path="cache", max_lag_ms=50)
    service = world.service()
    change = service.plan_write_path("demo", path, max_lag_ms=lag_ms)
    lines = planned(world.runner, lambda: service.set_write_path("demo", path, max_lag_ms=lag_ms))
    service.set_write_path("demo", path, max_lag_ms=lag_ms)
    if expected is None:
        assert (change, lines) == (None, [])
        return
    assert change is not None
    assert (change.changed.write_path, change.changed.max_lag_ms) == expected
    assert (change.former, change.former_max_lag_ms) == ("cache", 50)
    spec, volume = world.service().get("demo").spec, world.volumes.get("demo").spec
    assert (spec.write_path, spec.max_lag_ms) == expected
    assert (volume.write_path, volume.max_lag_ms) == expected
    assert any("at most 20 ms behind" in line for line in lines) == (expected[0] == "cache")


def test_set_to_cache_that_fails_has_its_former_lag_again(world: World) -> None:
    world.create(write_path="cache", max_lag_ms=50)
    before = world.inventory()
    world.volumes.failing_paths = {"journal"}
    with pytest.raises(GrampusError, match="driver ended"):
        world.service().set_write_path("demo", "journal")
    assert world.inventory() == before


def test_a_host_that_cannot_serve_the_write_path_is_refused_before_anything(world: World) -> None:
    world.create(host="h1")
    world.volumes.hosts_without_volumed = {"h1", "h2"}
    before = world.inventory()
    for act in (
        lambda: world.create("other", write_path="journal"),
        lambda: world.service().plan_write_path("demo", "journal"),
        lambda: world.service().set_write_path("demo", "journal"),
    ):
        with pytest.raises(GrampusError) as caught:
            act()
        assert caught.value.code == "no-driver"
    assert world.inventory() == before


def test_set_stops_and_starts_it_with_another_write_path_and_its_data(world: World) -> None:
    world.create()
    rows = PurePosixPath("/data/volumes/demo/data/t1")
    world.hosts["h1"].files[rows] = FakeFile("rows")
    before = world.service().show("demo").record
    for path in ("journal", "direct"):
        world.service().set_write_path("demo", path)
        view = world.service().show("demo")
        assert (view.status, view.record.spec.write_path) == ("running", path)
        assert view.volume is not None
        assert view.volume.spec.write_path == path
        assert world.volumes.images["demo"].facts["write-path"] == path
        assert world.hosts["h1"].files[rows].content == "rows"
    assert world.service().get("demo") == before


def test_set_to_what_it_is_already_does_not_stop_it(world: World) -> None:
    world.create()
    commands = len(world.hosts["h1"].commands)
    assert world.service().plan_write_path("demo", "direct") is None
    world.service().set_write_path("demo", "direct")
    assert len(world.hosts["h1"].commands) == commands


def test_the_servers_settings_follow_the_write_path(world: World) -> None:
    world.create(write_path="cache")
    method = "innodb_flush_method"
    for path, value in (("cache", "O_DIRECT_NO_FSYNC"), ("direct", "O_DIRECT")):
        world.service().set_write_path("demo", path)  # type: ignore[arg-type]
        lines = world.hosts["h1"].files[DEMO / "my.cnf"].content.splitlines()
        assert [line for line in lines if line.startswith(method)] == [f"{method} = {value}"]
    world.service().set_write_path("demo", "journal")
    world.service().ensure_local_instance("demo")
    (config,) = [
        file
        for path, file in world.hosts["h1"].files.items()
        if path.name == "my.cnf" and path.parent != DEMO
    ]
    assert f"{method} = O_DIRECT\n" in config.content


def test_set_leaves_a_stopped_database_stopped(world: World) -> None:
    world.create()
    world.service().stop("demo")
    world.service().set_write_path("demo", "journal")
    view = world.service().show("demo")
    assert (view.status, view.record.desired) == ("stopped", "stopped")
    world.service().start("demo")
    assert world.service().show("demo").status == "running"


def test_the_plan_of_a_set_says_what_is_stopped_and_started(world: World) -> None:
    world.create()
    before = world.inventory()
    service = world.service()
    lines = planned(world.runner, lambda: service.set_write_path("demo", "journal"))
    assert lines[:3] == [
        "Stop the server",
        "Detach the volume",
        "Set the write path of the volume to journal",
    ]
    assert lines[-2] == "Start the mysql server"
    assert world.inventory() == before
    service.stop("demo")
    lines = planned(world.runner, lambda: service.set_write_path("demo", "journal"))
    assert not [line for line in lines if line.startswith(("Start", "Stop"))]


def test_set_whose_volume_cannot_be_attached_runs_again_as_before(world: World) -> None:
    world.create()
    before = world.inventory()
    world.volumes.failing_paths = {"journal"}
    with pytest.raises(GrampusError, match="driver ended"):
        world.service().set_write_path("demo", "journal")
    assert world.inventory() == before
    assert world.service().show("demo").status == "running"


def test_set_needs_its_host(world: World) -> None:
    world.create()
    world.hosts["h1"].up = False
    with pytest.raises(HostUnreachableError):
        world.service().set_write_path("demo", "journal")
    assert world.journal.unfinished(LAB) == []


def test_records_of_an_earlier_version_write_directly(world: World) -> None:
    world.create()
    document = world.service().get("demo").model_dump(mode="json")
    del document["spec"]["write_path"]
    del document["spec"]["max_lag_ms"]
    assert DatabaseRecord.model_validate(document) == world.service().get("demo")
