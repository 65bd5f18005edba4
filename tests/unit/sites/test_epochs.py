"""All who work on a site share an epoch: a later one supersedes what began before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from grampus.core.errors import GrampusError, SupersededError
from grampus.sites.epochs import Machine, SiteEpochs
from grampus.sites.model import ControllerEpoch
from grampus.state.replicated import ReplicatedStore
from tests.fakes.clock import FakeClock
from tests.fakes.state_log import FakeStateLog

HERE, THERE = Machine("admin1", "aaaa"), Machine("admin2", "bbbb")
HOLD = "INSERT INTO held VALUES ('prod', ?, ?, 'm', 0, '2026', 'db create')"


class Note(BaseModel):
    text: str = ""


class Site:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = FakeStateLog()
        self.log.create("log-1")
        self.clock = FakeClock()

    def open(self, machine: Machine = HERE) -> tuple[ReplicatedStore, SiteEpochs]:
        """One process on a machine."""
        store = ReplicatedStore(self.directory / machine.name, "prod", self.log, clock=self.clock)
        store.join("log-1")
        store.catch_up()
        return store, SiteEpochs(store, "prod", self.clock, machine, process={})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def put(store: ReplicatedStore) -> None:
    store.put("note", "prod", "x", Note())


def test_nothing_is_changed_before_the_first_epoch(site: Site) -> None:
    store, epochs = site.open()
    with pytest.raises(GrampusError) as refused:
        put(store)
    assert refused.value.code == "no-epoch"
    epochs.begin("the site was adopted")
    put(store)
    assert epochs.check().verdict == "ok"
    assert "epoch 1 (since 2026-01-01 00:00:00 UTC, from admin1: the site was adopted)" in (
        epochs.check().sentence
    )


def test_machines_share_an_epoch(site: Site) -> None:
    store, epochs = site.open()
    epochs.begin("the site was adopted")
    other, others = site.open(THERE)
    assert others.own() == epochs.own()
    put(store)
    other.remove("note", "prod", "x")
    epochs.require()
    others.require()


def test_a_later_epoch_supersedes_what_began_before(site: Site) -> None:
    store, epochs = site.open()
    epochs.begin("the site was adopted")
    beside, besides = site.open()
    other, others = site.open(THERE)
    others.begin("admin1 was silent")
    for superseded in (epochs, besides):
        with pytest.raises(SupersededError, match="admin2 began the controller epoch 2") as refused:
            superseded.require()
        assert "(admin1 was silent)" in refused.value.problem
    for late in (store, beside):
        with pytest.raises(SupersededError):
            put(late)
        with pytest.raises(SupersededError):
            put(late)  # its copy knows all by now
    put(other)
    # From its next command on, the machine works in the new epoch.
    again, agains = site.open()
    put(again)
    agains.require()


def test_only_who_is_in_the_last_epoch_begins_another_one(site: Site) -> None:
    _, epochs = site.open()
    epochs.begin("the site was adopted")
    _, others = site.open(THERE)
    others.begin("admin1 was silent")
    with pytest.raises(SupersededError):
        epochs.begin("admin2 was silent")
    own = others.own()
    assert own is not None
    assert own.number == 2


def test_an_epoch_breaks_the_locks_of_all_others(site: Site) -> None:
    store, epochs = site.open()
    epochs.begin("the site was adopted")
    for name, holder in (("a", "me.1.x"), ("b", "me.1.y"), ("c", "me.2.x"), ("d", "silent.1.x")):
        store.change(lambda connection, row=(name, holder): connection.execute(HOLD, row))
    epochs.begin("silent was silent", holder="me.1")
    with store.transaction() as connection:
        rows = connection.execute("SELECT name FROM held ORDER BY name").fetchall()
    assert [row["name"] for row in rows] == ["a", "b"]


def test_the_sessions_of_a_process_share_its_epoch(site: Site) -> None:
    process: dict[str, ControllerEpoch] = {}
    store, _ = site.open()
    first = SiteEpochs(store, "prod", site.clock, HERE, process=process)
    first.begin("the site was adopted")
    second = SiteEpochs(site.open()[0], "prod", site.clock, HERE, process=process)
    second.begin("another machine was silent")
    first.require()
    put(store)
    # Another machine fences this one: later sessions of the process are of the former epoch, too.
    _, others = site.open(THERE)
    others.begin("admin1 was silent")
    third = SiteEpochs(site.open()[0], "prod", site.clock, HERE, process=process)
    with pytest.raises(SupersededError):
        third.require()
    third.renew()
    third.require()


def test_hosts_have_seen_epochs_of_an_earlier_release(site: Site) -> None:
    _, epochs = site.open()
    assert epochs.begin("the site was adopted", after=7).number == 8


def test_the_cluster_is_asked_again_after_a_while(site: Site) -> None:
    _, epochs = site.open()
    epochs.begin("the site was adopted")
    epochs.require()
    reads = site.log.reads
    epochs.require(seen_within_s=1.0)
    assert site.log.reads == reads
    site.clock.sleep(1.0)
    epochs.require(seen_within_s=1.0)
    assert site.log.reads == reads + 1
