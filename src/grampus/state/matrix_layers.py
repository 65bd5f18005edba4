"""What was seen of each layer under a trial, and which of them was its bottleneck.

The points of a trial are beside its other files, one JSON object a line:

    series/CELL_ID/ROUND.jsonl

All times are those of one clock, in seconds since the Unix epoch, so that points of all kinds can
be laid over each other. A point holds rates and means of the interval that ends at its time; a
metric that was not known then is left out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from grampus.state.runs import Frozen

SeriesKind = Literal[
    "client", "machine", "daemon", "innodb", "volume", "osd", "device", "network", "monitor"
]
Layer = Literal[
    "client", "server-cpu", "innodb", "volume", "osd-cpu", "osd-device", "network", "machine"
]
LAYERS: tuple[Layer, ...] = get_args(Layer)
# As a sentence names them.
LAYER_NAMES: Mapping[str, str] = {
    "client": "the load generator",
    "server-cpu": "the CPU of the database's server",
    "innodb": "waiting inside the server (row locks, the logs)",
    "volume": "the volume's driver",
    "osd-cpu": "the CPU of the OSDs",
    "osd-device": "the devices of the OSDs",
    "network": "the network",
    "machine": "the CPU of the machine, used by other programs or the kernel",
}
# The same as headings and in tables, with what a bottleneck can be, too.
LAYER_WORDS: Mapping[str, str] = {
    "client": "client",
    "server-cpu": "server CPU",
    "innodb": "InnoDB",
    "volume": "volume",
    "osd-cpu": "OSD CPU",
    "osd-device": "OSD device",
    "network": "network",
    "machine": "machine",
    "none": "none",
    "unknown": "unknown",
}
# What a bottleneck can be, too: too little is known, or, in runs of Grampus 0.2 and earlier, no
# layer was at its limit.
BottleneckWord = Layer | Literal["none", "unknown"]
# How sure it is that the bottleneck is the one that is named.
Confidence = Literal["high", "medium", "low"]

_BLOCK: Mapping[str, str] = {
    "read_iops": "reads that ended, a second",
    "write_iops": "writes that ended, a second",
    "read_bytes_per_s": "bytes read",
    "write_bytes_per_s": "bytes written",
    "busy_share": "of the time, that in which a request was under way (0 to 1)",
    "in_flight": "requests under way, on average",
    "latency_ms": "of a read or write, on average",
    "flushes_per_s": "flushes that ended, a second",
    "flush_busy_share": "of the time, that in which a flush was under way (0 to 1)",
    "flush_ms": "of a flush, on average",
}
# Every metric of every kind of subject.
METRICS: Mapping[SeriesKind, Mapping[str, str]] = {
    "client": {
        "operations_per_s": "transactions, requests or I/Os that ended, a second (by client)",
        "errors_per_s": "errors that a client passed over (by client)",
        "cpu_cores": "cores that all clients on the host used (`clients@HOST`)",
        "cpu_waiting": "threads of all clients on the host that waited for a CPU, on average",
    },
    "machine": {
        "cores": "cores of the machine",
        "cpu_cores": "cores that were at work",
        "cpu_share": "of the cores that the machine had, those at work (0 to 1)",
        "steal_share": "of all cores, those that other machines of the hardware had (0 to 1)",
        "iowait_share": "of all cores, those that had nothing to do but to wait for I/O (0 to 1)",
        "memory_bytes": "memory that could not be given out any more",
    },
    "daemon": {
        "cpu_cores": "cores that its control group used",
        "cpu_waiting": "its threads that waited for a CPU, on average",
        "throttled_share": "of the time, that in which its CPU limit was used up (0 to 1); "
        "`host@HOST` is the CPU budget of a host",
        "memory_bytes": "memory of its control group",
    },
    "innodb": {
        "threads_running": "threads of the server that did something",
        "row_lock_waits_per_s": "waits for a row lock that began, a second",
        "row_lock_waiting": "threads that waited for a row lock, on average",
        "log_waits_per_s": "waits since the log buffer was full, a second",
        "log_fsyncs_per_s": "fsyncs of the redo log, a second",
        "log_written_bytes_per_s": "bytes written to the redo log",
        "log_busy_share": "of the time, that in which the redo log was written or flushed; it can "
        "be above 1 (performance_schema)",
        "binlog_busy_share": "as log_busy_share, of the binary log (performance_schema)",
        "buffer_reads_per_s": "pages that the buffer pool did not have, a second",
        "buffer_wait_free_per_s": "waits for a free page of the buffer pool, a second",
        "dirty_pages": "changed pages in the buffer pool",
        "pages_written_per_s": "pages written, a second",
    },
    "volume": {
        **_BLOCK,
        "served_in_flight": "requests in volumed at the time of reading",
        "served_read_ms": "of a read in volumed, on average",
        "served_write_ms": "of a write in volumed, on average",
        "served_flush_ms": "of a flush in volumed, on average",
    },
    "osd": {
        "writes_per_s": "writes of clients that ended, a second",
        "reads_per_s": "reads of clients that ended, a second",
        "copy_writes_per_s": "writes for other OSDs that ended, a second",
        "write_ms": "of a client's write, on average, with its copies",
        "read_ms": "of a client's read, on average",
        "copy_write_ms": "of a write for another OSD, on average",
        "in_flight": "operations of clients under way, on average",
        "copies_in_flight": "writes for other OSDs under way, on average",
        "device_waiting": "transactions and reads of BlueStore that waited for the device, on "
        "average",
        "commit_ms": "of a transaction in BlueStore until it is durable, on average",
    },
    "device": {
        **_BLOCK,
        "limit_share": "used of its medium's limit in IOPS (flushes apart) or bytes a second",
        "model_busy_share": "of the time in which an emulated disk works, by its model",
        "late_share": "of the time in which it works longer than that: the disk below it is slower",
    },
    "network": {
        "received_bytes_per_s": "bytes received",
        "sent_bytes_per_s": "bytes sent",
        "limit_share": "of the link's speed in the busier direction; only of real links",
        "osd_round_trip_ms": "of an echo to the hosts of OSDs, on average (`osds@HOST`)",
    },
    "monitor": {"cpu_cores": "cores that reading all of this took on the host"},
}


class SeriesPoint(Frozen):
    """Of one subject, what is known of the interval that ends at `at_s`.

    `name` is unique within the kind: a daemon or device is `DAEMON@HOST`, a volume or a database
    has its own name. `values` are some of the METRICS of the kind.
    """

    at_s: float
    kind: SeriesKind
    name: str
    values: Mapping[str, float]

    @model_validator(mode="after")
    def _knows_its_metrics(self) -> Self:
        unknown = sorted(set(self.values) - set(METRICS[self.kind]))
        if unknown:
            raise ValueError(f"{unknown[0]} is not a metric of {self.kind}")
        return self


class LayerUse(Frozen):
    """How far a layer was used: of its limit (0 to 1), on average and at most, while it counted.

    `over_time` are means of parts of `Why.from_s` to `Why.to_s`, all of the same length.
    """

    layer: Layer
    share: float
    peak: float
    over_time: tuple[float | None, ...] = ()


class LayerTime(Frozen):
    """The time that a layer adds to an operation, on average."""

    layer: Layer
    share: float = Field(description="of the operation's time (0 to 1)")
    queued_share: float = Field(
        description="of the operation's time, the part that it was queued in the layer"
    )
    ms: float | None = Field(default=None, description="of an operation; unknown in old runs")


class Why(Frozen):
    """Why a trial was no faster: its bottleneck, and what was seen of each layer.

    `from_s` and `to_s` span warm-up and measuring, `measured_from_s` is where measuring began; all
    are Unix time.
    """

    bottleneck: BottleneckWord
    evidence: tuple[str, ...] = Field(description="sentences, the deciding one first")
    confidence: Confidence | None = Field(
        default=None, description="that it is this layer; null in old runs and of an unknown one"
    )
    times: tuple[LayerTime, ...] = Field(
        default=(), description="the time that each layer adds to an operation, the longest first"
    )
    layers: tuple[LayerUse, ...] = ()
    from_s: float
    to_s: float
    measured_from_s: float
    throughput: tuple[float | None, ...] = Field(
        default=(), description="operations a second in the parts of `LayerUse.over_time`"
    )
    gaps: tuple[str, ...] = Field(default=(), description="what could not be read, as sentences")
    passed_limit: str | None = Field(
        default=None,
        description="that a device did more than its medium is limited to, or an emulated disk "
        "was slower than its model, as a sentence",
    )
    monitor_cpu_cores: float | None = Field(
        default=None, description="what the reading itself took, all hosts together"
    )
