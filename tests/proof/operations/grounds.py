"""Where the operations are tried: on a lab, or on a site with hosts that Grampus did not create."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.proof.operations.remote_client import RemoteClient
from tests.proof.proof_lab import own_lab
from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.lab_machine import LabMachine
from tests.system.site_machines import LabCluster, new_home, own_site

LAB, SITE = "operations", "operated"
DIRECTORY = CHECKOUT / "build" / "operations"
# Beside the page, since the next trial of a few operations goes on from them on another machine.
FIGURES = CHECKOUT / "docs" / "proof" / "operations"
DATABASE, POOL = "worked", "other-pool"
CLIENTS_HOST = "h3"
# Of a site, too: its databases are on machines of their own, beside those of the lab.
HOSTS = ("h1", "h2", "h3")


@dataclass(frozen=True)
class Ground:
    """A kind of place, and where its figures are kept."""

    kind: Literal["lab", "site"]
    page: Path
    title: str  # of the page
    where: str  # in the words of the page

    def kept_file(self, size: str) -> Path:
        """Where what was tried of a size is kept."""
        prefix = "size" if self.kind == "lab" else "site"
        return FIGURES / f"{prefix}-{size}.json"


GROUNDS = {
    ground.kind: ground
    for ground in (
        Ground("lab", FIGURES.with_suffix(".md"), "Operations under load", "on a real lab"),
        Ground(
            "site",
            FIGURES.with_name("operations-site.md"),
            "Operations under load on a site",
            "on a site: three machines with systemd that Grampus did not create and reaches by SSH "
            "alone, and a cluster that it knows by ceph.conf and a key of few rights",
        ),
    )
}


@contextmanager
def own_ground(ground: Ground, lab_arguments: Sequence[str]) -> Iterator[RemoteClient]:
    """The place, new, with a client of the database that is to be made there; gone afterwards.

    The clients are on a host of a lab. A site has that lab's cluster.
    """
    with own_lab(LAB, DIRECTORY, lab_arguments) as lab:
        clients = LabMachine(lab, CLIENTS_HOST)
        ensure_pool(clients)
        if ground.kind == "lab":
            yield RemoteClient(clients, DATABASE)
            return
        line = CommandLine(SITE, new_home(lab.home))
        pools = ("databases", POOL)
        with (
            tempfile.TemporaryDirectory() as files,
            own_site(
                line, LabCluster(lab), Path(files), line.home / "machines", HOSTS, pools=pools
            ) as site,
        ):
            yield RemoteClient(clients, DATABASE, line, site.data_of)


def ensure_pool(machine: LabMachine) -> None:
    """Another pool, with as many copies."""
    if POOL not in machine.ceph("osd", "pool", "ls"):
        machine.ok("ceph", "osd", "pool", "create", POOL, "16", "16", "--autoscale-mode=off")
        machine.ok("rbd", "pool", "init", POOL)
