"""A second lab beside the first, on the stable image, with the other flavour."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import make_lab
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine, wait_for_health
from tests.system.places import LAB_HOSTS

# It takes a second on an idle machine, and took 10 to 60 s while the old server held it up.
TAKEOVER_MS = 8_000


@pytest.fixture(scope="module")
def second() -> Iterator[CommandLine]:
    """A lab on the stable host image."""
    yield from make_lab("test-second", "--image", "trixie")


def test_stable_image_beside_the_newest(lab: CommandLine, second: CommandLine) -> None:
    second.ok("db", "create", "maria", "--size", "1G", "--flavour", "mariadb")
    for one in (second, lab):
        wait_for_health(one)
    version = second.sql("maria", "select version()")[0][0]
    assert version.startswith("11.8")
    assert lab.json("db", "list")["databases"] == []
    first, other = (
        command_line.json("lab", "status")["spec"]["subnet"] for command_line in (lab, second)
    )
    assert first != other


def test_mariadb_on_the_newest_cluster(lab: CommandLine, second: CommandLine) -> None:
    lab.ok("db", "create", "maria", "--size", "1G", "--flavour", "mariadb")
    try:
        assert lab.sql("maria", "select version()")[0][0].startswith("11.8")
        require_takeover_waits_for_nobody(lab)
    finally:
        lab.ok("db", "delete", "maria", "--now", "--yes")
    assert [d["name"] for d in second.json("db", "list")["databases"]] == ["maria"]


def require_takeover_waits_for_nobody(lab: CommandLine) -> None:
    """An idle MariaDB writes nothing, so it does not notice that it was fenced, and goes on."""
    host = lab.json("db", "show", "maria")["host"]
    other = next(one for one in LAB_HOSTS if one != host)
    done = lab.json("db", "failover", "maria", "--to", other, "--force")
    assert done["phases_ms"]["attached"] < TAKEOVER_MS, done["phases_ms"]
    assert lab.sql("maria", "select 1") == [["1"]]
    assert lab.json("volume", "show", "maria")["fenced"] == []
    assert not [one for one in LabMachine(lab, host).daemons() if "maria" in one]
