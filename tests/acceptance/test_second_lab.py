"""A second lab beside the first, on the stable image, with the other flavour."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import make_lab
from tests.system.command_line import CommandLine
from tests.system.lab_machine import wait_for_health


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
    finally:
        lab.ok("db", "delete", "maria", "--now", "--yes")
    assert [d["name"] for d in second.json("db", "list")["databases"]] == ["maria"]
