"""`grampus volume verify`: whether the OSDs hold what was written."""

from __future__ import annotations

import typer

from grampus.cli.app import EXIT_FAILED, command
from grampus.cli.composition.verify import volume_scrubs
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    RepairOption,
)
from grampus.cli.output import OutputFormat, make_output
from grampus.cli.scrub_documents import (
    DAMAGE_COLUMNS,
    advise_on_scrub,
    rows_of_scrub,
    scrub_document,
)
from grampus.cli.volume import NameArgument, volume_app
from grampus.cli.work import work_on_volumes
from grampus.volumes.decide_scrub import ScrubReport, describe_scrub


@command(volume_app, "verify", "grampus volume verify scratch --repair")
def volume_verify(
    name: NameArgument,
    repair: RepairOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Read and compare all copies of a volume on the OSDs, while it is in use.

    The command also checks data that the volume shares with its parents. The exit code is 1 if
    something is damaged and was not repaired.
    """
    with work_on_volumes(lab, dry_run=dry_run) as (session, volumes):
        scrub = volume_scrubs(session).scrub(volumes.get(name), repair=repair)
    output = make_output(output_format)
    document = {"volume": name, "summary": describe_scrub(scrub), **scrub_document(scrub)}
    rows = rows_of_scrub(scrub)
    if rows and output_format is not OutputFormat.JSON:
        output.table(document, DAMAGE_COLUMNS, rows, "")
    output.text(document, conclusion(name, scrub))
    if not scrub.is_sound:
        raise typer.Exit(EXIT_FAILED)


def conclusion(volume: str, scrub: ScrubReport) -> str:
    """What it came to, and what to do about it."""
    advice = advise_on_scrub(
        scrub,
        repair=f"grampus volume verify {volume} --repair",
        restore="roll the volume back to a snapshot, or write the data again",
    )
    return "\n".join([f"The volume '{volume}': {describe_scrub(scrub)}.", *advice])
