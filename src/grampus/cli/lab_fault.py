"""`grampus lab fault`: the lab broken on purpose, and healed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.session import Session
from grampus.cli.lab import lab_app
from grampus.cli.lab_settle import silence_left_instances, start_databases
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
from grampus.lab.labs import LabService
from grampus.lab.model import LabSpec
from grampus.lab.slow_disks import SlowDisks

fault_app = make_noun(
    "fault",
    "Break the lab on purpose, and repair it.",
    under=lab_app,
    modules={
        "kill-daemon": "grampus.cli.lab_fault",
        "kill-host": "grampus.cli.lab_fault",
        "partition": "grampus.cli.lab_fault",
        "heal": "grampus.cli.lab_fault",
        "bit-rot": "grampus.cli.lab_bit_rot",
        "slow-disk": "grampus.cli.lab_fault",
    },
)
MAX_IOPS = 100_000
HostArgument = Annotated[str, typer.Argument(help="A host, such as h3.")]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", metavar="", help="Continue even if databases then cannot write any more."
    ),
]


@command(fault_app, "kill-daemon", "grampus lab fault kill-daemon osd-1")
def kill_daemon(
    daemon: Annotated[str, typer.Argument(help="A daemon, such as osd-1 (see lab status).")],
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """End a daemon with SIGKILL."""
    plan = (f"Kill {daemon}",)
    with _breaking(lab, plan, dry_run=dry_run, daemon=daemon, force=force) as (service, spec):
        host = service.kill_daemon(spec, daemon)
    _report(output_format, "kill-daemon", daemon, f"Killed {daemon} on {host}.")


@command(fault_app, "kill-host", "grampus lab fault kill-host h3")
def kill_host(
    host: HostArgument,
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Cut a host's link and kill all its processes, as a power failure does."""
    plan = (f"Cut the link of {host}", f"Kill all processes on {host}")
    with _breaking(lab, plan, dry_run=dry_run, host=host, force=force) as (service, spec):
        service.kill_host(spec, host)
    _report(output_format, "kill-host", host, f"Killed the host {host}.")


# From what a host is cut off.
CutFrom = Literal["ceph", "clients", "controller", "incoming", "outgoing", "all"]
CutFromOption = Annotated[
    CutFrom,
    typer.Option(
        "--from",
        metavar="PEERS",
        help="The peers to cut off: ceph (no storage network), clients (only Ceph is reachable), "
        "controller (Grampus cannot run commands there), incoming or outgoing (packets of one "
        "direction are lost), or all.",
    ),
]


@command(fault_app, "partition", "grampus lab fault partition h2 --from ceph")
def partition(
    host: HostArgument,
    cut_from: CutFromOption = "all",
    lab: LabOption = LAB_DEFAULT,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Cut a host off the network, or from one kind of peer. Its daemons keep running."""
    # Its daemons of Ceph go on with the other hosts in these two cases.
    force = force or cut_from in ("clients", "controller")
    plan = (f"Cut the link of {host}" if cut_from == "all" else f"Cut {host} from {cut_from}",)
    with _breaking(lab, plan, dry_run=dry_run, host=host, force=force) as (service, spec):
        service.partition(spec, host, None if cut_from == "all" else cut_from)
    _report(output_format, "partition", host, f"Cut {host} off from {_PEERS[cut_from]}.")


@command(fault_app, "slow-disk", "grampus lab fault slow-disk osd-1 --iops 20")
def slow_disk(
    osd: Annotated[str, typer.Argument(help="An OSD of the lab, such as osd-1.")],
    iops: Annotated[
        int,
        typer.Option(metavar="N", help="Reads, and as many writes, that the disk takes a second."),
    ] = 20,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Slow the disk of an OSD down, as a disk that is about to fail. `heal` ends it."""
    if not 1 <= iops <= MAX_IOPS:
        raise UsageError(f"{iops} is not a valid number of requests.", f"Choose 1 to {MAX_IOPS}.")
    # It goes on, so nothing that databases need is lost.
    plan = (f"Limit the disk of {osd} to {iops} IOPS",)
    with _breaking(lab, plan, dry_run=dry_run, daemon=osd, force=True) as (service, spec):
        host = SlowDisks(spec, service.fleet(spec)).slow(osd, iops)
    _report(output_format, "slow-disk", osd, f"The disk of {osd} on {host} takes {iops} IOPS.")


@command(fault_app, "heal", "grampus lab fault heal")
def heal(
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Reconnect and start everything again, and wait for HEALTH_OK."""
    session = Session(lab)
    with session.breaking_lab(), session.progress, session.planning(dry_run=dry_run):
        spec = session.require_lab()
        if not dry_run:
            rot = BitRot(spec, session.lab_fleet(), session.clock, session.progress)
            for sentence in rot.take_back():
                session.progress.note(sentence)
            for sentence in SlowDisks(spec, session.lab_fleet()).restore():
                session.progress.note(sentence)
            silence_left_instances(session)
        session.lab().up(spec)
        start_databases(session)
    _report(output_format, "heal", lab, f"The lab '{lab}' is healed.")


_PEERS: dict[CutFrom, str] = {
    "ceph": (
        "Ceph: Grampus can manage the host, but the Ceph daemons on the host are cut off, too"
    ),
    "clients": "all but Ceph",
    "controller": "Grampus: no command runs there until `grampus lab fault heal`",
    "incoming": "all that others send to it",
    "outgoing": "all to which it sends: its packets are lost",
    "all": "the network",
}


@contextmanager
def _breaking(
    lab: str,
    plan: Sequence[str],
    *,
    dry_run: bool,
    force: bool,
    host: str | None = None,
    daemon: str | None = None,
) -> Iterator[tuple[LabService, LabSpec]]:
    """The lab, held for one fault, after it was refused if databases would not bear it."""
    session = Session(lab)
    with session.breaking_lab(), session.planning(dry_run=dry_run):
        spec, service = session.require_lab(), session.lab()
        if not force:
            service.require_safe_to_lose(spec, host=host, daemon=daemon)
        session.runner.propose(lambda: plan)
        yield service, spec


def _report(
    output_format: FormatOption,
    fault: Literal["kill-daemon", "kill-host", "partition", "slow-disk", "heal"],
    subject: str,
    sentence: str,
) -> None:
    make_output(output_format).text({"fault": fault, "subject": subject}, sentence)
