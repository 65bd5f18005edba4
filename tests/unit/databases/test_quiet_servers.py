"""Servers that only Grampus uses run no user's code (INV-64)."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.databases.layout import plan_instance, plan_scratch_instance, render_config
from grampus.databases.model import DatabaseSpec, FlavourName, ScratchSpec
from grampus.databases.quiet_servers import (
    events_statement,
    hold_events_option,
    quiet_options,
)
from grampus.databases.upgrades.upgrade_daemon import upgrade_daemon
from grampus.databases.verify.decide_scratch import CLONE_LABEL, TEST_LABEL, scratch_name
from tests.fakes.specs import database_spec

from .world import World

USERS_OWN = {"event_scheduler": "ON", "init_connect": "INSERT INTO a.log VALUES (1)"}
RUN = PurePosixPath("/data"), PurePosixPath("/volume")


def spec(name: str = "shop", flavour: FlavourName = "mysql", **more: object) -> DatabaseSpec:
    return database_spec(name=name, flavour=flavour, parameters=USERS_OWN, **more)


def values(config: str, name: str) -> list[str]:
    lines = (line.partition(" = ") for line in config.splitlines())
    return [value.strip() for option, _, value in lines if option.strip() == name]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("label", "purpose"),
    [
        (CLONE_LABEL, "verify"),
        (TEST_LABEL, "restore-test-new"),
        (TEST_LABEL, "restore-test-old"),
    ],
)
def test_database_that_is_made_for_a_while_runs_nothing(
    flavour: FlavourName, label: str, purpose: str
) -> None:
    made = spec(scratch_name(purpose, "shop"), flavour, labels={label: "shop"})
    config = render_config(plan_instance(made, *RUN))
    assert values(config, "event_scheduler") == ["OFF"]
    assert values(config, "init_connect") == [""]


def test_database_of_somebody_is_as_they_want_it_whatever_its_label_says() -> None:
    config = render_config(plan_instance(spec(labels={CLONE_LABEL: "shop"}), *RUN))
    assert values(config, "event_scheduler") == ["ON"]
    assert values(config, "init_connect") == [USERS_OWN["init_connect"]]


def test_scratch_instance_runs_nothing() -> None:
    scratch = ScratchSpec(database=spec(), address="10.9.0.11", server_id=8)
    config = render_config(plan_scratch_instance(scratch, RUN[0]))
    assert values(config, "event_scheduler") == ["OFF"]


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_upgrade_runs_nothing(flavour: FlavourName) -> None:
    daemon = upgrade_daemon(plan_instance(spec(flavour=flavour), *RUN))
    assert set(quiet_options(flavour)) <= set(daemon.argv)
    assert "--skip-networking" in daemon.argv


EVENTS = [
    ({}, "--event-scheduler=OFF", True),
    ({"event_scheduler": "ON"}, "--event-scheduler=OFF", True),
    ({"event_scheduler": "1"}, "--event-scheduler=OFF", True),
    ({"event_scheduler": "OFF"}, "--event-scheduler=OFF", False),
    ({"event_scheduler": "DISABLED"}, "--event-scheduler=DISABLED", False),
]


@pytest.mark.parametrize(("parameters", "option", "runs"), EVENTS)
def test_copy_runs_events_once_it_is_open_as_its_user_wants(
    parameters: dict[str, str], option: str, *, runs: bool
) -> None:
    assert hold_events_option(parameters) == option
    statement = events_statement("mysql", parameters)
    assert (statement is not None) is runs
    assert statement is None or "offline_mode" in statement


def test_clone_holds_its_events_until_it_has_its_own_passwords(world: World) -> None:
    world.create()
    (daemon,) = [d for h in world.hosts.values() for d in h.daemons.values()]
    assert "--event-scheduler=OFF" in daemon.spec.argv
    assert "--offline-mode=ON" in daemon.spec.argv
