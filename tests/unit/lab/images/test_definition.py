"""Definitions: what is read, what is refused, and what makes another image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError
from grampus.lab.images.definition import ImageDefinition, load_definitions, parse_definition

REPOSITORY = Path(__file__).parents[4]

MINIMAL = """
name = "tiny"
title = "Tiny"
suite = "sid"
ceph_version = "20.2"
database_version = "9.7"
flavours = ["mysql"]
estimated_size_bytes = 1000
packages = ["ceph-osd", "fio"]
main_packages = ["fio"]
programs = ["fio"]
files = []
"""


def tiny(**changes: Any) -> ImageDefinition:
    return parse_definition(MINIMAL, source="tiny.toml").model_copy(update=changes)


def test_the_definitions_of_the_repository() -> None:
    definitions = load_definitions(REPOSITORY / "images")
    assert {name: (d.suite, d.flavours) for name, d in definitions.items()} == {
        "bookworm": ("bookworm", ("mariadb",)),
        "bookworm-mariadb": ("bookworm", ("mariadb",)),
        "sid": ("sid", ("mysql",)),
        "sid-gateway": ("sid", ()),
        "sid-guest": ("sid", ()),
        "sid-monitoring": ("sid", ()),
        "trixie": ("trixie", ("mariadb",)),
    }
    assert {name for name, d in definitions.items() if d.runs_hosts} == {
        "bookworm",
        "sid",
        "trixie",
    }
    for definition in definitions.values():
        assert set(definition.main_packages) <= set(definition.packages)
        users = [("mysql", 64050)] if definition.flavours else []
        assert [(user.name, user.id) for user in definition.users] == users


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another title"},
        {"estimated_size_bytes": 5},
        {"ceph_version": "20.3"},
        {"packages": ("fio", "ceph-osd")},
    ],
)
def test_prose_and_order_do_not_make_another_image(change: dict[str, Any]) -> None:
    assert tiny(**change).image_id == tiny().image_id


@pytest.mark.parametrize(
    "change",
    [
        {"packages": ("ceph-osd", "fio", "tini")},
        {"suite": "trixie"},
        {"apt_options": ('Acquire::Check-Valid-Until "false"',)},
        {"programs": ("fio", "rbd")},
    ],
)
def test_content_makes_another_image(change: dict[str, Any]) -> None:
    assert tiny(**change).digest != tiny().digest


def test_id_is_the_name_and_twelve_digits() -> None:
    name, _, digest = tiny().image_id.partition("-")
    assert (name, len(digest), int(digest, 16) > 0) == ("tiny", 12, True)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('suite = "sid"', 'suite = "sid', "tiny.toml is not valid"),
        ('suite = "sid"', 'suite = "--foreign"', "suite: "),
        ('"ceph-osd"', '"x,--foreign"', "packages.0: "),
        ('["mysql"]', '["oracle"]', "flavours.0: "),
        ('title = "Tiny"', 'titel = "Tiny"', "title: "),
        ('name = "tiny"', 'name = "other"', "its name is 'other'"),
        ("files = []", 'files = ["relative"]', "files.0: "),
    ],
)
def test_what_is_refused(old: str, new: str, reason: str) -> None:
    assert old in MINIMAL
    with pytest.raises(GrampusError, match=reason) as caught:
        parse_definition(MINIMAL.replace(old, new), source="tiny.toml")
    assert caught.value.code == "definition-invalid"


def test_directory_without_definitions(tmp_path: Path) -> None:
    with pytest.raises(GrampusError, match="no host image definition") as caught:
        load_definitions(tmp_path)
    assert caught.value.code == "definitions-missing"
