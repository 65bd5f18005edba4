"""Options that name a external Ceph cluster."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.options import LAB_DEFAULT, LAB_VARIABLE
from grampus.core.errors import UsageError

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


@dataclass(frozen=True)
class OwnClusterOptions:
    """A cluster as a command names it. `user` is without "client."; `rule` is a CRUSH rule."""

    conf: Path
    keyring: Path | None = None
    user: str | None = None
    rule: str | None = None

    @property
    def words(self) -> str:
        """The options of another command for the same cluster, with a space before."""
        pairs = (
            ("--conf", self.conf.absolute()),
            ("--keyring", None if self.keyring is None else self.keyring.absolute()),
            ("--user", self.user),
            ("--crush-rule", self.rule),
        )
        return "".join(
            f" {option} {shlex.quote(str(value))}" for option, value in pairs if value is not None
        )


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
