"""Ports of the entry, and what HAProxy is told of them."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.endpoints.haproxy import Member, Slot, parse_slots, render_look
from grampus.databases.endpoints.haproxy_daemon import batched_lines
from grampus.databases.entries.decide_entry import (
    decide_directions,
    decide_entry_ports,
    decide_places,
    digest_directions,
    require_entry_ports,
    require_same_range,
)
from grampus.databases.entries.entry_config import render_entry_config, render_redirections
from grampus.databases.model import Entry
from grampus.databases.records import RunningPlace
from tests.fakes.haproxy import FakeHaproxy

PORTS = range(14300, 14303)
ENTRY = Entry(first_port=14300, last_port=14302, hosts=("h1", "h3"))
SHOP, BLOG = Member("shop", "10.0.0.1", 13300), Member("blog", "10.0.0.2", 13301)


@pytest.mark.parametrize(
    ("databases", "known", "given", "without"),
    [
        ([], {}, {}, []),
        (["shop", "blog"], {}, {"blog": 14300, "shop": 14301}, []),
        (["shop", "blog"], {"shop": 14300}, {"blog": 14301}, []),
        # One of a database that does not run is not given to another.
        (["blog"], {"shop": 14300}, {"blog": 14301}, []),
        # One of a former range does not count.
        (["shop"], {"shop": 15000}, {"shop": 14300}, []),
        (list("abcd"), {}, {"a": 14300, "b": 14301, "c": 14302}, ["d"]),
    ],
)
def test_each_database_gets_a_port_and_keeps_it(
    databases: list[str], known: dict[str, int], given: dict[str, int], without: list[str]
) -> None:
    assert decide_entry_ports(databases, known, PORTS) == (given, without)


def test_a_port_leads_to_its_database_if_that_is_to_run() -> None:
    places = {"shop": RunningPlace(host="h1", place="10.0.0.1:13300")}
    assert decide_directions({"shop": 14300, "blog": 14301}, places) == {14300: SHOP}


def test_a_digest_differs_where_a_host_is_told_something_else() -> None:
    digests = {
        digest_directions("10.0.0.1", PORTS, {14300: SHOP}),
        digest_directions("10.0.0.2", PORTS, {14300: SHOP}),
        digest_directions("10.0.0.1", range(14300, 14302), {14300: SHOP}),
        digest_directions("10.0.0.1", PORTS, {14301: SHOP}),
        digest_directions("10.0.0.1", PORTS, {14300: BLOG}),
    }
    assert len(digests) == 5
    # Its name alone is nothing that HAProxy knows.
    renamed = Member("other", SHOP.address, SHOP.port)
    assert digest_directions("10.0.0.1", PORTS, {14300: renamed}) in digests


@pytest.mark.parametrize(
    ("port", "places"),
    [(None, []), (15000, []), (14301, ["10.0.0.1:14301", "10.0.0.3:14301"])],
)
def test_clients_are_told_every_host(port: int | None, places: list[str]) -> None:
    addresses = {"h1": "10.0.0.1", "h2": "10.0.0.2", "h3": "10.0.0.3"}
    assert decide_places(ENTRY, port, addresses) == places


@pytest.mark.parametrize(
    ("database_ports", "code"),
    [
        ((), "no-entry"),
        (range(13300, 13400), None),
        (range(14302, 14310), "bad-ports"),
        (range(4300, 4310), "bad-ports"),  # their second ports are 10,000 above
    ],
)
def test_ports_are_none_of_a_database(database_ports: range, code: str | None) -> None:
    if code is None:
        require_entry_ports(PORTS, database_ports)
        return
    with pytest.raises(GrampusError) as caught:
        require_entry_ports(PORTS, database_ports)
    assert caught.value.code == code


def test_the_range_stays_while_clients_know_it() -> None:
    require_same_range(ENTRY, None)
    require_same_range(ENTRY, PORTS)
    with pytest.raises(RefusedError, match="has the ports 14300-14302"):
        require_same_range(ENTRY, range(14300, 14310))


def configured(directions: dict[int, Member]) -> FakeHaproxy:
    return FakeHaproxy(render_entry_config("10.0.0.9", PORTS, directions, "/run/x.sock"))


def test_every_port_listens_from_the_beginning() -> None:
    proxy = configured({14301: SHOP})
    assert proxy.address == "10.0.0.9"
    assert proxy.directions == {14300: [], 14301: ["10.0.0.1:13300"], 14302: []}


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        ({}, {}, []),
        ({14300: SHOP}, {14300: SHOP}, []),
        ({}, {14300: SHOP}, []),
        ({14300: SHOP}, {}, ["entry-14300/database"]),
        # It moved: its sessions end, and no others.
        (
            {14300: SHOP, 14301: BLOG},
            {14300: Member("shop", "10.0.0.2", 13300), 14301: BLOG},
            ["entry-14300/database"],
        ),
    ],
)
def test_a_process_that_runs_is_redirected(
    before: dict[int, Member], after: dict[int, Member], ended: list[str]
) -> None:
    proxy = configured(before)
    _, answer = proxy.answer(render_look())
    commands = render_redirections(parse_slots(answer), after)
    if commands:
        proxy.answer(";".join(commands))
    assert proxy.directions == configured(after).directions
    shut = [one.split()[-1] for one in commands if one.startswith("shutdown")]
    assert shut == ended
    _, answer = proxy.answer(render_look())
    assert render_redirections(parse_slots(answer), after) == []


def test_a_server_that_was_put_out_by_hand_is_used_again() -> None:
    slot = Slot("entry-14300", "database", SHOP.address, SHOP.port, is_used=False)
    assert render_redirections([slot], {14300: SHOP})[1:] == [
        "set server entry-14300/database state ready",
        "set server entry-14300/database health up",
    ]


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        ([], []),
        (["aa", "bb", "cc"], ["aa;bb", "cc"]),
        (["aaaaaaaa", "b"], ["aaaaaaaa", "b"]),
    ],
)
def test_no_line_is_longer_than_haproxy_reads(commands: list[str], lines: list[str]) -> None:
    assert batched_lines(commands, 5) == lines
