"""The loads that a cell may put on a database, a volume or a pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

WorkloadName = Literal[
    "point-select",
    "update-index",
    "mix-70-30",
    "mix-75-25",
    "tpcc-like",
    "rados-write",
    "rados-read",
    "rbd-write",
    "rbd-read",
    "rbd-randwrite",
    "rbd-randread",
    "fio-write",
    "fio-read",
    "fio-randwrite",
    "fio-randread",
    "fio-mix-70-30",
    "fio-rbd-write",
    "fio-rbd-read",
    "fio-rbd-randwrite",
    "fio-rbd-randread",
    "fio-rbd-mix-70-30",
]
# What is loaded: a pool, an image through librbd, an attached volume, a database on one.
Target = Literal["pool", "image", "volume", "database"]


@dataclass(frozen=True)
class Workload:
    """`read_share` is that of reads among reads and writes; None where a script decides it."""

    target: Target
    title: str
    read_share: float | None


WORKLOADS: Mapping[WorkloadName, Workload] = {
    "point-select": Workload("database", "SELECTs by primary key, 100% read", 1.0),
    "update-index": Workload("database", "UPDATEs of an indexed column, 100% write", 0.0),
    "mix-70-30": Workload("database", "transactions with 70% reads and 30% writes", 0.7),
    "mix-75-25": Workload("database", "transactions with 75% reads and 25% writes", 0.75),
    "tpcc-like": Workload("database", "an order-entry mix after TPC-C's model", None),
    "rados-write": Workload("pool", "sequential writes of whole objects", 0.0),
    "rados-read": Workload("pool", "sequential reads of whole objects", 1.0),
    "rbd-write": Workload("image", "sequential writes by rbd bench", 0.0),
    "rbd-read": Workload("image", "sequential reads by rbd bench", 1.0),
    "rbd-randwrite": Workload("image", "random writes by rbd bench", 0.0),
    "rbd-randread": Workload("image", "random reads by rbd bench", 1.0),
    "fio-write": Workload("volume", "sequential writes by fio", 0.0),
    "fio-read": Workload("volume", "sequential reads by fio", 1.0),
    "fio-randwrite": Workload("volume", "random writes by fio", 0.0),
    "fio-randread": Workload("volume", "random reads by fio", 1.0),
    "fio-mix-70-30": Workload("volume", "70% random reads and 30% random writes by fio", 0.7),
    "fio-rbd-write": Workload("image", "sequential writes by fio's rbd engine", 0.0),
    "fio-rbd-read": Workload("image", "sequential reads by fio's rbd engine", 1.0),
    "fio-rbd-randwrite": Workload("image", "random writes by fio's rbd engine", 0.0),
    "fio-rbd-randread": Workload("image", "random reads by fio's rbd engine", 1.0),
    "fio-rbd-mix-70-30": Workload(
        "image", "70% random reads and 30% random writes by fio's rbd engine", 0.7
    ),
}
