"""Options that name a cluster of one's own, and `grampus bench tidy`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.bench import bench_app
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.own_cluster import OwnClusterOptions, own_cluster_place
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    LAB_VARIABLE,
    DryRunOption,
    FormatOption,
)
from grampus.cli.output import make_output, show_plan
from grampus.core.errors import UsageError
from grampus.state.locks import hold_lock

CONF_HELP = "the ceph.conf of a cluster of your own"
KeyringOption = Annotated[
    Path | None,
    typer.Option(
        "--keyring",
        metavar="FILE",
        help="With --conf: the user's keyring (default: where the configuration says).",
    ),
]
UserOption = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="NAME", help="With --conf: the cephx user, without client. (admin)."
    ),
]
RuleOption = Annotated[
    str | None,
    typer.Option(
        "--crush-rule",
        metavar="NAME",
        help="With --conf: the CRUSH rule of the pools that are measured, such as one of a device "
        "class (default: the first for replicated pools).",
    ),
]


def parse_own_cluster(
    conf: Path | None, keyring: Path | None, user: str | None, rule: str | None, *, lab: str
) -> OwnClusterOptions | None:
    """The cluster that these options name; None: the lab is meant. Raises UsageError."""
    if conf is not None:
        # By GRAMPUS_LAB a lab is named for all commands that follow, and not for this one.
        if lab != (os.environ.get(LAB_VARIABLE) or LAB_DEFAULT):
            raise UsageError(
                "The command names a cluster and a lab, and it measures one of them.",
                "Leave out --conf or --lab.",
            )
        return OwnClusterOptions(conf, keyring, user, rule)
    for name, value in {"--keyring": keyring, "--user": user, "--crush-rule": rule}.items():
        if value is not None:
            raise UsageError(
                f"{name} says something of a cluster of your own, and none is named.",
                "Add --conf FILE, or leave it out to measure in a lab.",
            )
    return None


@command(bench_app, "tidy", "grampus bench tidy --conf /etc/ceph/ceph.conf")
def bench_tidy(
    conf: Annotated[
        Path, typer.Option("--conf", metavar="FILE", help=f"{CONF_HELP.capitalize()}.")
    ],
    keyring: KeyringOption = None,
    user: UserOption = None,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Take back what a killed run left on a cluster of your own: its pools, and scrubs, balancer
    and autoscaler that are off.

    The next run does so too, and so does a run that ends in any other way.
    """
    session = LabSession(LAB_DEFAULT)
    output = make_output(output_format)
    with session.progress:
        place = own_cluster_place(session, OwnClusterOptions(conf, keyring, user))
        left, others = place.left(), place.marked_by_others()
        if dry_run:
            show_plan(output_format, left)
            return
        with hold_lock(session.home, "bench", session.clock, timeout_s=0):
            # Another command may have done it meanwhile.
            left = place.left()
            place.dismantle()
    lines = [f"Done: {line}." for line in left] or ["Nothing of a benchmark was left."]
    lines += [
        f"The pool {pool} bears the mark of a benchmark of another Grampus home, and is left alone."
        for pool in others
    ]
    document = {"cluster": place.name, "done": left, "left_alone": others}
    output.text(document, "\n".join(lines))
