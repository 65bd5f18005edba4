"""The guide's pages, typed as they stand: each command does and prints what its page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.guide_pages import (
    GuidePage,
    TypedCommand,
    find_difference,
    parse_page,
    place_words,
)
from tests.system.lab_machine import LabMachine, remove_pool

# The longest page makes backups and two restore tests.
pytestmark = [pytest.mark.integration, pytest.mark.exhaustive, pytest.mark.timeout(1800)]

PAGES = {
    file.stem: parsed
    for file in sorted((CHECKOUT / "docs" / "guide").glob("*.md"))
    if (parsed := parse_page(file.read_text(encoding="utf-8"))) is not None
}


# Directories of the machine that pages name; a try has its own instead.
MEDIUM = "/media/safe"
DIRECTORIES = (MEDIUM, "/srv/backups")
# A restore test of a schedule makes a server and reads all of two.
LONGEST_S = 900


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, lab: CommandLine) -> Iterator[tuple[str, GuidePage]]:
    """A page, and what it is tried with; whatever it leaves is taken away."""
    name = str(request.param)
    found = PAGES[name]
    machine = LabMachine(lab, "h1")
    volumes, pools = volumes_of(lab), machine.ceph("osd", "pool", "ls")
    if found.database is not None:
        lab.ok("db", "create", found.database, "--size", "1G", "--cpus", "0.5", "--host", "h1")
    try:
        yield name, found
    finally:
        for _ in range(2):  # a primary goes after what stands on it
            for database in lab.json("db", "list")["databases"]:
                lab.run("db", "delete", database["name"], "--now", "--yes")
        for volume in volumes_of(lab) - volumes:
            if not volume.startswith("golden-"):
                lab.run("volume", "detach", volume)
                lab.run("volume", "delete", volume, "--yes")
        for pool in set(machine.ceph("osd", "pool", "ls")) - set(pools):
            remove_pool(machine, pool)


def volumes_of(lab: CommandLine) -> set[str]:
    return {volume["name"] for volume in lab.json("volume", "list")["volumes"]}


def type_command(lab: CommandLine, command: TypedCommand, directories: dict[str, str]) -> str:
    """What it prints, without its progress."""
    argv = place_words(command.argv, directories)
    if not command.is_grampus:
        typed = LabMachine(lab, "h1").run(
            command.program, *place_words(argv, {"default.": f"{lab.lab}."})
        )
        return typed.stdout + typed.stderr
    finished = lab.run(*argv, timeout_s=LONGEST_S)
    if finished.code == 0:
        return finished.stdout
    # Of what fails the error alone is on the page; what is broken in a database is no error.
    said = finished.stderr
    return finished.stdout + (said[said.rfind("error: ") :] if "error: " in said else "")


def test_a_page_does_what_it_says(
    lab: CommandLine, page: tuple[str, GuidePage], tmp_path: Path
) -> None:
    name, found = page
    directories = {place: str(tmp_path / Path(place).name) for place in DIRECTORIES}
    Path(directories[MEDIUM]).mkdir()
    # Its paths are those of a GRAMPUS_HOME and a lab that nobody named.
    same = {f"{lab.home}/": "/var/lib/grampus/", f"/{lab.lab}/": "/default/"}
    same |= {f".{lab.lab}.": ".default.", f"'{lab.lab}'": "'default'"}
    same |= {mine: theirs for theirs, mine in directories.items()}
    place = Path("docs/guide") / f"{name}.md"
    for command in found.commands:
        difference = find_difference(
            command.printed, type_command(lab, command, directories), same=same
        )
        assert difference is None, f"{place}:{command.line}: {difference}"
