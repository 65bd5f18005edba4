"""rbd bench's command line, for Ceph 16 to 20."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grampus.bench.drivers.bounded import bounded_argv
from grampus.bench.drivers.ceph_client import CephClient

RbdDirection = Literal["read", "write"]
RbdPattern = Literal["rand", "seq"]


@dataclass(frozen=True)
class RbdLoad:
    """One run: rbd bench ends after `total_bytes`, it knows no time limit.

    `image_spec` is rbd's own, POOL/[NAMESPACE/]IMAGE.
    """

    client: CephClient
    image_spec: str
    direction: RbdDirection
    pattern: RbdPattern
    io_bytes: int
    concurrency: int
    total_bytes: int
    timeout_s: int


def rbd_bench_argv(load: RbdLoad) -> list[str]:
    """The command of one run. It prints text: rbd bench has no --format."""
    argv = [
        "rbd",
        *load.client.options,
        *load.client.image_settings,
        "bench",
        f"--io-type={load.direction}",
        f"--io-pattern={load.pattern}",
        f"--io-size={load.io_bytes}",
        f"--io-threads={load.concurrency}",
        f"--io-total={load.total_bytes}",
        load.image_spec,
    ]
    return bounded_argv(argv, timeout_s=load.timeout_s)
