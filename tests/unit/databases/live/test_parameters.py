"""Parameters of a running server: set, listed and reset."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, UsageError

from .live_world import LiveWorld


def _states(world: LiveWorld) -> dict[str, tuple[str | None, str]]:
    return {view.name: (view.running, view.state) for view in world.parameters().list("demo")}


def _waiting(world: LiveWorld) -> list[str]:
    return world.parameters().waiting(world.service().get("demo"))


def _config(world: LiveWorld) -> str:
    return world.hosts["h1"].files[PurePosixPath("/h1/databases/demo/my.cnf")].content


def test_parameter_that_can_change_does_at_once_and_is_kept(world: LiveWorld) -> None:
    change = world.parameters().set("demo", "innodb-io-capacity", "1K")
    assert change is not None
    assert not change.waits_for_restart
    assert world.server().values["innodb_io_capacity"] == "1024"
    assert "innodb_io_capacity = 1024\n" in _config(world)
    assert world.volumes.images["demo"].facts["parameters"] == '{"innodb_io_capacity": "1024"}'
    assert _states(world) == {"innodb_io_capacity": ("1024", "in effect")}
    assert _waiting(world) == []
    world.live().restart("demo")
    assert _states(world) == {"innodb_io_capacity": ("1024", "in effect")}


def test_parameter_of_the_next_start_waits(world: LiveWorld) -> None:
    change = world.parameters().set("demo", "innodb_page_cleaners", "8")
    assert change is not None
    assert change.waits_for_restart
    assert _states(world) == {"innodb_page_cleaners": ("4", "pending restart")}
    assert _waiting(world) == ["innodb_page_cleaners"]
    world.live().restart("demo")
    assert _states(world) == {"innodb_page_cleaners": ("8", "in effect")}
    world.hosts["h1"].commands.clear()
    assert (_waiting(world), world.hosts["h1"].commands) == ([], []), "nobody need be asked"
    world.parameters().reset("demo", "innodb_page_cleaners")
    assert _states(world) == {"innodb_page_cleaners": ("8", "pending restart")}
    world.live().restart("demo")
    assert _states(world) == {}


def test_reset_is_to_grampus_own_value_or_the_servers(world: LiveWorld) -> None:
    before = world.inventory()
    for name, value in (("innodb_io_capacity", "900"), ("slow_query_log", "on")):
        world.parameters().set("demo", name, value)
        world.parameters().reset("demo", name)
    assert world.server().values["innodb_io_capacity"] == "500"
    assert world.server().values["slow_query_log"] == "OFF"
    assert world.inventory() == before


def test_what_a_newer_server_ignores_is_shown_and_reset(world: LiveWorld) -> None:
    before = world.inventory()
    world.parameters().set("demo", "innodb_page_cleaners", "8")
    world.live().restart("demo")
    value = world.server().values.pop("innodb_page_cleaners")
    assert _states(world) == {"innodb_page_cleaners": (None, "ignored")}
    change = world.parameters().reset("demo", "innodb_page_cleaners")
    assert not change.waits_for_restart
    assert (_states(world), _waiting(world)) == ({}, [])
    assert "innodb_page_cleaners = 8" not in _config(world)
    world.server().values["innodb_page_cleaners"] = value
    world.live().restart("demo")
    assert world.inventory() == before


@pytest.mark.parametrize(
    ("name", "value", "error", "code"),
    [
        ("nonsense", "1", NotFoundError, "unknown-parameter"),
        ("innodb_io_capacity", "5", UsageError, "invalid-value"),
        ("binlog_row_image", "NONSENSE", UsageError, "invalid-value"),
        ("datadir", "/x", RefusedError, "own-parameter"),
        ("version_compile_os", "Linux", RefusedError, "own-parameter"),
        ("sql_select_limit", "1000", RefusedError, "session-parameter"),
        ("time_zone", "Europe/Berlim", UsageError, "invalid-value"),
    ],
)
def test_refused_parameter_changes_nothing(
    world: LiveWorld, name: str, value: str, error: type[GrampusError], code: str
) -> None:
    before = world.inventory()
    with pytest.raises(error) as caught:
        world.parameters().set("demo", name, value)
    assert caught.value.code == code
    assert world.inventory() == before


def test_time_zone_is_kept_under_its_options_name(world: LiveWorld) -> None:
    change = world.parameters().set("demo", "default-time-zone", "europe/berlin")
    assert change is not None
    assert not change.waits_for_restart
    assert world.server().values["time_zone"] == "Europe/Berlin"
    assert "\ndefault_time_zone = Europe/Berlin\n" in _config(world)
    assert "\ntime_zone" not in _config(world)
    assert _states(world) == {"time_zone": ("Europe/Berlin", "in effect")}
    world.live().restart("demo")
    assert _states(world) == {"time_zone": ("Europe/Berlin", "in effect")}
    # DEFAULT would be what the server was started with.
    world.parameters().reset("demo", "time_zone")
    assert world.server().values["time_zone"] == "SYSTEM"
    assert "time_zone" not in _config(world)
    assert _states(world) == {}


def test_a_name_without_tables_says_how_to_load_them(world: LiveWorld) -> None:
    for path in [path for path in world.hosts["h1"].files if path.name == "zones"]:
        del world.hosts["h1"].files[path]
    before = world.inventory()
    with pytest.raises(RefusedError) as caught:
        world.parameters().set("demo", "time_zone", "Europe/Berlin")
    assert caught.value.code == "no-time-zones"
    assert world.inventory() == before
    world.parameters().set("demo", "time_zone", "+02:00")
    assert _states(world) == {"time_zone": ("+02:00", "in effect")}


def test_same_value_changes_nothing(world: LiveWorld) -> None:
    world.parameters().set("demo", "innodb_io_capacity", "1024")
    assert world.parameters().set("demo", "innodb_io_capacity", "1K") is None


def test_reset_of_what_was_not_set(world: LiveWorld) -> None:
    with pytest.raises(NotFoundError) as caught:
        world.parameters().reset("demo", "innodb_io_capacity")
    assert caught.value.code == "not-set"


def test_stopped_server_takes_no_parameter_but_a_reset(world: LiveWorld) -> None:
    world.parameters().set("demo", "innodb_io_capacity", "900")
    world.service().stop("demo")
    assert _states(world) == {"innodb_io_capacity": (None, "unknown")}
    with pytest.raises(RefusedError) as caught:
        world.parameters().set("demo", "innodb_io_capacity", "800")
    assert caught.value.code == "not-running"
    world.parameters().reset("demo", "innodb_io_capacity")
    world.service().start("demo")
    assert world.server().values["innodb_io_capacity"] == "500"


def test_everything_is_listed_on_request(world: LiveWorld) -> None:
    views = world.parameters().list("demo", everything=True)
    assert {view.state for view in views} == {"in effect"}
    assert len(views) > 10
