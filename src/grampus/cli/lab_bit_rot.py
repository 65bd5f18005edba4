"""`grampus lab fault bit-rot`: a flipped bit in one stored copy."""

from __future__ import annotations

from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.composition.session import Session
from grampus.cli.lab_fault import ForceOption, fault_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.core.errors import UsageError
from grampus.lab.bit_rot import BitRot
from grampus.lab.ceph_daemons import osd_daemon

MAX_COUNT = 100


@command(fault_app, "bit-rot", "grampus lab fault bit-rot shop --count 3")
def bit_rot(
    volume: Annotated[str, typer.Argument(help="A volume, or a database for its volume.")],
    osd: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The OSD with the copies to damage (default: one that no client reads from).",
        ),
    ] = None,
    count: Annotated[
        int, typer.Option(metavar="N", help="Number of objects to damage, one bit each.")
    ] = 1,
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Flip a bit in one stored copy on the device. The OSD stops for some seconds.

    A read of that copy or a deep scrub finds the damage: `grampus db verify NAME --repair`. `heal`
    does not repair it.
    """
    if not 1 <= count <= MAX_COUNT:
        raise UsageError(f"{count} is not a valid number of objects.", f"Choose 1 to {MAX_COUNT}.")
    session = Session(lab)
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        spec, image = session.require_lab(), session.volumes().get(volume).spec
        rot = BitRot(spec, session.lab_fleet(), session.clock, session.progress)
        plan = rot.plan(image.pool, image.image, osd=osd, count=count)
        if not force:
            session.lab().require_safe_to_lose(spec, host=None, daemon=osd_daemon(plan.osd))
        session.runner.propose(lambda: rot.describe(plan))
        flipped = rot.flip(plan)
    document = {
        "fault": "bit-rot",
        "subject": volume,
        "osd": plan.osd,
        "host": plan.host,
        "flipped": [
            {"object": bit.object, "placement_group": bit.group, "offset_bytes": bit.offset_bytes}
            for bit in flipped
        ],
    }
    shown = "\n".join(f"  {bit.object} in {bit.group}" for bit in flipped)
    objects = "1 object" if len(flipped) == 1 else f"{len(flipped)} objects"
    make_output(output_format).text(
        document,
        f"Flipped a bit in osd.{plan.osd}'s copy of {objects} of {volume}:\n{shown}",
    )
