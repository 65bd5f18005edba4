"""The guide's pages, typed as they stand: each command does and prints what its page says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.guide_pages import GuidePage, find_difference, parse_page, place_words

pytestmark = [pytest.mark.integration, pytest.mark.exhaustive]

PAGES = {
    file.stem: page
    for file in sorted((CHECKOUT / "docs" / "guide").glob("*.md"))
    if (page := parse_page(file.read_text(encoding="utf-8"))) is not None
}


# Directories of the machine that pages name; a try has its own instead.
MEDIUM = "/media/safe"
DIRECTORIES = (MEDIUM, "/srv/backups")


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, lab: CommandLine) -> Iterator[tuple[str, GuidePage]]:
    """A page, and what it is tried with; whatever databases it leaves are taken away."""
    name = str(request.param)
    found = PAGES[name]
    lab.ok("db", "create", found.database, "--size", "1G", "--cpus", "0.5", "--host", "h1")
    try:
        yield name, found
    finally:
        for _ in range(2):  # a primary goes after what stands on it
            for database in lab.json("db", "list")["databases"]:
                lab.run("db", "delete", database["name"], "--now", "--yes")


def test_a_page_does_what_it_says(
    lab: CommandLine, page: tuple[str, GuidePage], tmp_path: Path
) -> None:
    name, found = page
    directories = {place: str(tmp_path / Path(place).name) for place in DIRECTORIES}
    Path(directories[MEDIUM]).mkdir()
    # Its paths are those of a GRAMPUS_HOME and a lab that nobody named.
    same = {f"{lab.home}/": "/var/lib/grampus/", f"/{lab.lab}/": "/default/"}
    same |= {mine: theirs for theirs, mine in directories.items()}
    place = Path("docs/guide") / f"{name}.md"
    for command in found.commands:
        finished = lab.run(*place_words(command.argv, directories))
        # Progress goes beside what is printed; of what fails the error alone is on the page.
        printed = finished.stdout
        if finished.code != 0:
            said = finished.stderr
            printed += said[said.rfind("error: ") :] if "error: " in said else said
        difference = find_difference(command.printed, printed, same=same)
        assert difference is None, f"{place}:{command.line}: {difference}"
