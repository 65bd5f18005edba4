"""`grampus bench tidy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.app import command
from grampus.cli.bench import bench_app
from grampus.cli.bench_own_options import (
    CONF_HELP,
    KeyringOption,
    OwnClusterOptions,
    UserOption,
)
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.own_cluster import own_cluster_place
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
)
from grampus.cli.output import make_output, show_plan
from grampus.state.locks import hold_lock


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
