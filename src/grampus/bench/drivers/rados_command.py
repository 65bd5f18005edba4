"""rados bench's command lines, for Ceph 16 to 20."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grampus.bench.drivers.command import CephClient, bounded_argv
from grampus.core.errors import RefusedError

RadosMode = Literal["write", "seq", "rand"]
# A cluster that hangs for this long after the end is not waited for.
TIMEOUT_EXTRA_S = 120
CLEANUP_TIMEOUT_S = 1800
# Objects are named benchmark_data_HOST_PID_objectN.
_OBJECT_PREFIX = re.compile(r"benchmark_data_\S+_\d+")
_NO_RUN = ".none"


@dataclass(frozen=True)
class RadosLoad:
    """One run. `run_name` is that of the object in which a write leaves what it wrote, for reads
    to find: each of several clients needs its own, and reads on the host of the write, whose name
    is a part of the objects' names.

    `op_bytes` and `object_bytes` are for writes; reads take those of the write before. `namespace`
    is a RADOS namespace. A write ends with `max_objects`, if that is before its time. As text, each
    second's row comes when it is over, and a run that is killed has said which objects are its own;
    as JSON all of it comes at the end.
    """

    client: CephClient
    pool: str
    mode: RadosMode
    run_name: str
    duration_s: int
    concurrency: int
    op_bytes: int = 4 * 1024 * 1024
    object_bytes: int | None = None
    namespace: str | None = None
    as_json: bool = False
    max_objects: int | None = None


def rados_bench_argv(load: RadosLoad) -> list[str]:
    """The command of one run. A write leaves its objects for reads and for cleanup."""
    options = [f"--concurrent-ios={load.concurrency}", f"--run-name={load.run_name}"]
    if load.as_json:
        options.append("--format=json")
    if load.mode == "write":
        options += ["--no-cleanup", f"--block-size={load.op_bytes}"]
        if load.object_bytes is not None:
            options.append(f"--object-size={load.object_bytes}")
        if load.max_objects is not None:
            options.append(f"--max-objects={load.max_objects}")
    argv = [*_rados(load), "bench", str(load.duration_s), load.mode, *options]
    return bounded_argv(argv, timeout_s=load.duration_s + TIMEOUT_EXTRA_S)


def rados_cleanup_argv(load: RadosLoad, *, object_prefix: str) -> list[str]:
    """The command that removes the objects of one write, by the prefix that it printed.

    Raises RefusedError for a prefix that is not one run's: all objects with it go.
    """
    if _OBJECT_PREFIX.fullmatch(object_prefix) is None:
        raise RefusedError(
            f"'{object_prefix}' is not the prefix of one rados bench run.",
            "Take the object prefix from the output of the run whose objects you want to remove.",
            code="object-prefix",
        )
    argv = [
        *_rados(load),
        "cleanup",
        # To the end of the process id: 47 is the beginning of 4711 too.
        f"--prefix={object_prefix}_object",
        # With a run name that exists, rados would remove what that run wrote last, whatever the
        # prefix is: for a run that was killed, the one before it.
        f"--run-name={load.run_name}{_NO_RUN}",
    ]
    return bounded_argv(argv, timeout_s=CLEANUP_TIMEOUT_S)


def rados_forget_argv(load: RadosLoad) -> list[str]:
    """The command that removes what a write left for reads to find its objects.

    A run that was killed left nothing: rados then says that there is no such object.
    """
    return bounded_argv([*_rados(load), "rm", load.run_name], timeout_s=TIMEOUT_EXTRA_S)


def _rados(load: RadosLoad) -> list[str]:
    namespace = [] if load.namespace is None else [f"--namespace={load.namespace}"]
    return ["rados", *load.client.options, f"--pool={load.pool}", *namespace]
