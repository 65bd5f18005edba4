"""The composition root, of benchmarks on a cluster that is somebody's own."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from grampus.bench.drivers.command import CephClient
from grampus.bench.environments.manifest import describe_program
from grampus.bench.own.own_place import OwnClusterPlace, OwnPorts, cluster_at, observe_fsid
from grampus.ceph.access import PROGRAMS
from grampus.cli.bench_own_options import OwnClusterOptions
from grampus.cli.composition.checkout import observe_commit
from grampus.cli.composition.lab import LabSession
from grampus.core.errors import UsageError, suggest_file
from grampus.core.installation import INSTALLATION
from grampus.hosts.cgroups import is_cgroup_v2
from grampus.hosts.process import require_program
from grampus.hosts.this_machine import ThisMachine

DEFAULT_USER = "admin"
# A load generator shall measure the cluster and not its own memory.
_IMAGE_SETTINGS = ("--rbd-cache=false",)


def own_cluster_place(session: LabSession, options: OwnClusterOptions) -> OwnClusterPlace:
    """The cluster as a place of benchmarks.

    Raises UsageError for files that are not there, GrampusError with code `program-missing` where
    this machine lacks Ceph's programs, and what the cluster says when it does not let us in.
    """
    conf = _absolute(options.conf, "--conf")
    keyring = None if options.keyring is None else _absolute(options.keyring, "--keyring")
    for program in PROGRAMS:
        require_program(program)
    client = CephClient(conf, options.user or DEFAULT_USER, keyring, _IMAGE_SETTINGS)
    home = session.home
    fsid = observe_fsid(cluster_at(ThisMachine(home.root), client))
    directory = home.cluster_dir(fsid)
    return OwnClusterPlace(
        OwnPorts(
            host=ThisMachine(directory),
            client=client,
            store=session.store,
            clock=session.clock,
            progress=session.progress,
            raw_dir=directory / "bench",
            options=options.words,
            rule=options.rule,
            disk_room=lambda: _disk_room(home.root),
            program_facts=describe_program(
                observe_commit(INSTALLATION.data), is_cgroup_v2=is_cgroup_v2()
            ),
        ),
        fsid,
    )


def _absolute(file: Path, option: str) -> PurePosixPath:
    if not file.is_file():
        raise UsageError(
            f"{option}: the file {file} does not exist.",
            suggest_file(
                file,
                "Copy ceph.conf and a keyring from a host of the cluster, then give their paths.",
            ),
            code="no-such-file",
        )
    return PurePosixPath(file.absolute())


def _disk_room(directory: Path) -> tuple[int, int]:
    """Of the disk that runs are kept on."""
    while not directory.exists():
        directory = directory.parent
    usage = shutil.disk_usage(directory)
    return usage.total, usage.free
