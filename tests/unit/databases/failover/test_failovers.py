"""INV-74, INV-75: a database of a lost host runs on elsewhere, and never on two hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from grampus.cli.event_documents import event_document
from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.left_instances import silence_cut_off
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.view import explain_lost_hosts
from grampus.hosts.port import HostUnreachableError
from tests.fakes.interruption import Killed
from tests.unit.databases.stopped_case import certificates, trash, write_rows
from tests.unit.databases.world import LAB, database_events
from tests.unit.operation_runner import planned

from .failover_world import FailoverWorld

TLS = PurePosixPath("databases/demo/tls/server-cert.pem")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FailoverWorld]:
    made = FailoverWorld(tmp_path)
    made.create(host="h1")
    write_rows(made, "acknowledged")
    yield made
    made.close()


def _rows(world: FailoverWorld) -> str:
    (row,) = [
        file.content
        for path, file in world.volumes._content(world.volumes.images["demo"]).items()
        if path == PurePosixPath("data/rows")
    ]
    return row


def test_it_runs_on_elsewhere_with_all_that_clients_know(world: FailoverWorld) -> None:
    before, certificate = world.service().endpoint("demo"), world.hosts["h1"].files["/h1" / TLS]
    world.lose()
    failed_over = world.failovers().fail_over("demo")
    view = world.service().show("demo")
    assert (view.status, view.record.spec.host) == ("running", "h2")
    after = world.service().endpoint("demo")
    assert (after.address, after.password) == (before.address, before.password)
    assert world.hosts["h2"].files["/h2" / TLS].content == certificate.content
    assert before.address in world.hosts["h2"].addresses
    assert _rows(world) == "acknowledged"
    assert world.volumes.images["demo"].facts["host"] == "h2"
    assert list(failed_over.phases_ms) == ["fenced", "attached", "serving"]
    assert failed_over.keeps_certificates
    assert world.volumes.takeovers.hurried == ["h1"]


@pytest.mark.parametrize(
    ("detected_ms", "said"),
    [
        (None, "fenced after "),
        (3700, "detected after 3.7 s, fenced after "),
    ],
)
def test_its_history_has_the_phases(
    world: FailoverWorld, detected_ms: int | None, said: str
) -> None:
    world.lose()
    world.failovers().fail_over("demo", detected_ms=detected_ms)
    (event,) = [one for one in database_events(world).of("demo") if one.kind == "db.failover"]
    assert (event.what, event.outcome) == ("failover: h1 to h2", "done")
    assert event.reason.startswith(said)
    assert event_document(event)["phases_ms"] == dict(event.phases_ms)
    assert list(event.phases_ms)[-3:] == ["fenced", "attached", "serving"]


def test_the_fence_comes_before_anything_that_serves(world: FailoverWorld) -> None:
    world.lose()
    world.journal.met.clear()
    world.failovers().fail_over("demo")
    steps = list(world.journal.met["db.failover"])
    assert steps.index("fence") < steps.index("record") < steps.index("attach")


def test_new_certificates_of_a_rotation_come_along(world: FailoverWorld) -> None:
    certificates(world).rotate("demo")
    world.lose()
    world.failovers().fail_over("demo", to="h3")
    certificates(world).retire("demo")
    assert world.service().show("demo").status == "running"


def test_without_copies_of_the_certificates_there_are_new_ones(world: FailoverWorld) -> None:
    (world.home.secrets_dir(LAB) / "demo.tls.json").unlink()
    world.lose()
    assert not world.failovers().fail_over("demo").keeps_certificates
    assert world.service().show("demo").status == "running"


def test_the_old_host_is_cleared_when_it_is_back_and_serves_nothing(world: FailoverWorld) -> None:
    address = world.service().get("demo").spec.address
    world.lose()
    world.failovers().fail_over("demo")
    assert world.service().converge() == []
    assert "mysqld-demo" in world.hosts["h1"].daemons
    world.find_again()
    (said,) = world.service().converge()
    assert said == "The remains of the database demo on h1 were removed."
    assert "mysqld-demo" not in world.hosts["h1"].daemons
    assert address not in world.hosts["h1"].addresses
    assert [path for path in world.hosts["h1"].files if "demo" in str(path)] == []
    assert world.volumes.takeovers.left == set()
    assert world.service().converge() == []
    assert world.service().show("demo").status == "running"


def test_after_a_restart_of_everything_it_runs_where_it_is_now(world: FailoverWorld) -> None:
    world.lose()
    world.failovers().fail_over("demo")
    world.find_again()
    for host in world.hosts.values():
        host.crash()
    world.volumes.dead_drivers.add("demo")
    world.service().converge()
    assert world.service().ensure_running() == []
    assert world.service().show("demo").record.spec.host == "h2"
    assert "mysqld-demo" not in world.hosts["h1"].daemons


def test_there_and_back_over_two_lost_hosts(world: FailoverWorld) -> None:
    world.lose("h1")
    world.failovers().fail_over("demo")
    world.find_again("h1")
    world.lose("h2")
    world.service().converge()
    world.failovers().fail_over("demo", to="h1")
    assert world.service().show("demo").record.spec.host == "h1"
    world.find_again("h2")
    world.service().converge()
    assert world.service().operations.records.all_left() == []
    assert "mysqld-demo" in world.hosts["h1"].daemons
    assert "mysqld-demo" not in world.hosts["h2"].daemons
    assert _rows(world) == "acknowledged"


def test_it_does_not_go_where_its_old_server_still_runs(world: FailoverWorld) -> None:
    """Back on the network, and cleared by nobody yet."""
    world.lose("h1")
    world.failovers().fail_over("demo")
    world.find_again("h1")
    before = world.inventory()
    assert planned(world.runner, lambda: world.moves().move("demo", "h1"))
    assert world.inventory() == before
    world.lose("h2")
    assert planned(world.runner, lambda: world.failovers().fail_over("demo", to="h1"))
    assert {left.spec.host for left in world.service().operations.records.all_left()} == {"h1"}
    world.failovers().fail_over("demo", to="h1")
    assert world.hosts["h1"].daemons["mysqld-demo"].state == "running"
    assert world.volumes.takeovers.left == {("h2", "demo")}
    assert {left.spec.host for left in world.service().operations.records.all_left()} == {"h2"}


def test_stopped_database_is_taken_along_and_not_started(world: FailoverWorld) -> None:
    world.service().stop("demo")
    world.lose()
    failed_over = world.failovers().fail_over("demo")
    assert failed_over.phases_ms == {}
    view = world.service().show("demo")
    assert (view.status, view.record.spec.host) == ("stopped", "h2")
    world.service().start("demo")
    assert world.hosts["h2"].daemons["mysqld-demo"].state == "running"


def test_scratch_instance_is_left_behind_and_cleared(world: FailoverWorld) -> None:
    world.service().ensure_local_instance("demo")
    world.lose()
    world.failovers().fail_over("demo")
    assert world.service().operations.records.find_scratch("demo") is None
    world.find_again()
    world.service().converge()
    assert list(world.hosts["h1"].daemons) == []


# -- refused ------------------------------------------------------------------------------------


def _refused(world: FailoverWorld, **wishes: object) -> str:
    before = world.inventory()
    with pytest.raises(GrampusError) as caught:
        world.failovers().fail_over("demo", **wishes)  # type: ignore[arg-type]
    assert world.inventory() == before
    return str(caught.value.code)


def test_host_that_answers_keeps_its_database(world: FailoverWorld) -> None:
    assert _refused(world) == "host-answers"
    world.service().stop("demo")
    assert _refused(world) == "host-answers"


def test_database_that_answers_clients_stays(world: FailoverWorld) -> None:
    world.lose()
    world.hosts["h2"].answering.add(world.service().get("demo").spec.address)
    assert _refused(world) == "still-serving"


def test_forced_the_host_that_answers_is_fenced_and_silenced(world: FailoverWorld) -> None:
    address = world.service().get("demo").spec.address
    world.failovers().fail_over("demo", force=True)
    assert world.volumes.get("demo").host == "h2"
    assert "mysqld-demo" not in world.hosts["h1"].daemons
    assert address not in world.hosts["h1"].addresses
    assert world.service().show("demo").status == "running"


def test_host_without_server_and_volume_is_as_good_as_lost(world: FailoverWorld) -> None:
    world.hosts["h1"].crash()
    world.volumes.dead_drivers.add("demo")
    world.failovers().fail_over("demo")
    assert world.service().show("demo").record.spec.host == "h2"


def test_loss_of_a_log_must_be_accepted(world: FailoverWorld) -> None:
    world.volumes.takeovers.needed_logs["demo"] = "h1"
    world.lose()
    assert _refused(world) == "may-lose"
    assert _refused(world, force=True) == "may-lose"
    failed_over = world.failovers().fail_over("demo", accepts_loss=True)
    assert failed_over.may_lose_ms == 100


def test_it_needs_another_host_that_can_be_reached(world: FailoverWorld) -> None:
    world.lose()
    with pytest.raises(UsageError):
        world.failovers().fail_over("demo", to="h1")
    world.lose("h2")
    with pytest.raises(HostUnreachableError):
        world.failovers().fail_over("demo", to="h2")
    world.lose("h3")
    with pytest.raises(RefusedError) as caught:
        world.failovers().fail_over("demo")
    assert caught.value.code == "no-host"


def test_host_that_cannot_serve_it_is_passed_over(world: FailoverWorld) -> None:
    world.volumes.images["demo"].record = world.volumes.get("demo")
    world.volumes.hosts_without_volumed.add("h2")
    world.lose()
    lines = planned(world.runner, lambda: world.failovers().fail_over("demo"))
    assert any(line.startswith("Attach the volume to h3") for line in lines)
    assert world.failovers().fail_over("demo").record.spec.host == "h3"


def test_fence_that_is_not_confirmed_leaves_everything_as_it_was(world: FailoverWorld) -> None:
    world.lose()
    world.volumes.takeovers.failure = "The cluster does not list the client as fenced."
    assert _refused(world) == "not-fenced"
    assert world.volumes.get("demo").host == "h1"


# -- interrupted --------------------------------------------------------------------------------


def test_failure_after_the_fence_is_finished_by_the_next_command(world: FailoverWorld) -> None:
    world.lose()
    world.hosts["h2"].serve_failure = "[ERROR] no such luck"
    with pytest.raises(GrampusError):
        world.failovers().fail_over("demo")
    world.hosts["h2"].serve_failure = ""
    assert "finished" in world.service().converge()[0]
    assert world.service().show("demo").status == "running"


def test_new_host_that_is_lost_too_gives_way_to_a_third(world: FailoverWorld) -> None:
    world.lose()
    world.hosts["h2"].serve_failure = "[ERROR] no such luck"
    with pytest.raises(GrampusError):
        world.failovers().fail_over("demo")
    world.lose("h2")
    world.failovers().fail_over("demo")
    view = world.service().show("demo")
    assert (view.status, view.record.spec.host) == ("running", "h3")
    world.find_again("h1")
    world.find_again("h2")
    world.service().converge()
    assert world.service().operations.records.all_left() == []
    assert not any("mysqld-demo" in world.hosts[name].daemons for name in ("h1", "h2"))
    assert _rows(world) == "acknowledged"


def test_operations_that_the_lost_host_cut_off_are_settled_on_the_new_one(
    world: FailoverWorld,
) -> None:
    world.journal.dies_after = ("db.restart", "server")
    with pytest.raises(Killed):
        world.live().restart("demo")
    world.journal.dies_after = None
    world.lose()
    world.service().converge()
    assert [op.kind for op in world.journal.unfinished(LAB)] == ["db.restart"]
    before = world.inventory()
    assert planned(world.runner, lambda: world.failovers().fail_over("demo"))
    assert (world.inventory(), world.volumes.takeovers.hurried) == (before, [])
    world.failovers().fail_over("demo")
    assert world.journal.unfinished(LAB) == []
    view = world.service().show("demo")
    assert (view.status, view.record.spec.host) == ("running", "h2")


@pytest.mark.parametrize("step", ["prepare", "server", "detach", "record", "attach"])
def test_move_that_the_lost_host_cut_off_gives_way(world: FailoverWorld, step: str) -> None:
    world.journal.dies_after = ("db.move", step)
    with pytest.raises(Killed):
        DatabaseMoves(world.service().operations).move("demo", "h2")
    world.journal.dies_after = None
    world.lose()
    world.service().converge()
    if world.service().get("demo").spec.host == "h1":
        world.failovers().fail_over("demo")
    assert world.journal.unfinished(LAB) == []
    view = world.service().show("demo")
    assert view.status == "running"
    world.find_again()
    world.service().converge()
    assert "mysqld-demo" not in world.hosts["h1"].daemons
    assert _rows(world) == "acknowledged"


# -- stopped and deleted ------------------------------------------------------------------------


@pytest.mark.parametrize("now", [True, False])
def test_database_of_a_lost_host_is_deleted(world: FailoverWorld, *, now: bool) -> None:
    world.service().ensure_local_instance("demo")
    world.lose()
    if now:
        world.service().delete("demo")
    else:
        trash(world).trash("demo")
    assert "demo" not in world.service().operations.records.all()
    assert "demo" not in world.volumes.images
    assert "mysqld-demo" in world.hosts["h1"].daemons
    world.find_again()
    world.service().converge()
    found = world.inventory()
    assert (found["daemons"], found["addresses"], found["unfinished"]) == ([], [], [])
    assert [path for path in world.hosts["h1"].files if "demo" in str(path)] == []
    assert world.volumes.takeovers.left == set()
    assert world.service().operations.records.all_left() == []
    if not now:
        trash(world).restore("demo", host="h2")
        assert _rows(world) == "acknowledged"


def test_one_that_failed_over_is_deleted_while_its_former_host_is_away(
    world: FailoverWorld,
) -> None:
    world.lose()
    world.failovers().fail_over("demo")
    world.service().delete("demo")
    world.create("demo", host="h2")  # the name is free, and so is the address
    world.find_again()
    world.service().converge()
    assert "mysqld-demo" not in world.hosts["h1"].daemons
    assert world.service().show("demo").status == "running"


def test_stop_of_a_lost_host_is_noted_and_done_when_it_is_back(world: FailoverWorld) -> None:
    world.lose()
    plan = planned(world.runner, lambda: world.service().stop("demo"))
    assert (plan, world.service().get("demo").desired) == (
        ["Record that demo must not run"],
        "running",
    )
    world.service().stop("demo")
    assert world.service().get("demo").desired == "stopped"
    world.find_again()
    assert world.service().ensure_running() == []
    assert world.service().show("demo").status == "stopped"
    assert world.volumes.get("demo").host is None


def test_errors_name_the_way_out(world: FailoverWorld) -> None:
    world.lose()
    for refused in (
        lambda: world.service().start("demo"),
        lambda: world.moves().move("demo", "h2"),
    ):
        with pytest.raises(HostUnreachableError) as caught:
            refused()
        assert "`grampus db failover demo`" in caught.value.remedy


def test_server_that_was_cut_off_has_no_address_before_its_host_is_on_the_network_again(
    world: FailoverWorld,
) -> None:
    address = world.service().get("demo").spec.address
    world.lose()
    world.failovers().fail_over("demo")
    ports = world.service().operations.ports
    assert silence_cut_off(ports) == []
    assert address in world.hosts["h1"].addresses, "nobody could tell it"
    world.find_again()
    assert silence_cut_off(ports) == []
    assert address not in world.hosts["h1"].addresses
    assert [left.spec.host for left in ports.records.all_left()] == ["h1"], "files are still there"


def test_database_of_an_earlier_release_gets_copies_while_it_runs(world: FailoverWorld) -> None:
    """What `grampus serve` does once an hour."""
    copies = world.home.secrets_dir(LAB) / "demo.tls.json"
    kept = copies.read_text()
    copies.unlink()
    certificates(world).keep_copies()
    assert copies.read_text() == kept
    assert copies.stat().st_mode & 0o777 == 0o600


def test_list_says_what_to_do_for_databases_of_a_lost_host(world: FailoverWorld) -> None:
    world.create("second", host="h1")
    assert explain_lost_hosts(world.service().list()) == []
    world.lose()
    (said,) = explain_lost_hosts(world.service().list())
    assert said.startswith("h1 cannot be reached. If it is lost, `grampus db failover demo` runs")
    assert said.endswith("the same for second.")
