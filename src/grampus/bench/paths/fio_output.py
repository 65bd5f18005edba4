"""What `fio --output-format=json+` prints (fio 3.x), read without any I/O.

Its latency buckets are keyed by the middle of each, in nanoseconds, 64 or more to each doubling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grampus.bench.latency.histogram import LatencyHistogram
from grampus.bench.latency.sources import histogram_from_fio
from grampus.core.errors import GrampusError


class FioError(GrampusError):
    """fio failed, or printed something that cannot be read."""

    default_code = "fio-failed"


@dataclass(frozen=True)
class FioPoint:
    """One job of fio: its reads or its writes, after the ramp.

    `started_at_s` (Unix time) is when its ramp ended: fio sets `job_start` anew then (fio 3.41,
    compared with the times in its latency log). `flush` is empty unless the job flushed after its
    writes.
    """

    name: str
    started_at_s: float
    runtime_s: float
    operations: int
    iops: float
    bytes_per_s: float
    latency: LatencyHistogram
    flush: LatencyHistogram


def parse_fio(text: str, *, what: str) -> dict[str, FioPoint]:
    """The jobs in fio's output, by name. `what` names the run in errors.

    Raises FioError when fio reports an error, or when the text is not its JSON.
    """
    try:
        # Warnings come first, as plain lines.
        document = json.loads(text[text.index("{") :])
        points = [_parse_job(job, what) for job in document["jobs"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FioError(
            f"The output of fio for {what} cannot be read ({type(error).__name__}: {error}).",
            "Read it in the run's raw directory; Grampus reads fio 3.30 and later.",
            code="fio-output",
        ) from error
    return {point.name: point for point in points}


def describe_fio_failure(what: str, returncode: int, stdout: str, stderr: str) -> FioError:
    """The error for a fio that ended with a code, in its own last words."""
    lines = [line.strip() for line in f"{stdout.partition('{')[0]}\n{stderr}".splitlines()]
    words = [line for line in lines if line]
    said = "; ".join(words[-2:]) if words else f"it ended with code {returncode}"
    return FioError(
        f"fio failed during {what}: {said.rstrip('.')}.",
        "See whether the cluster and the host are healthy (grampus lab status), then try again.",
    )


def _parse_job(job: Mapping[str, Any], what: str) -> FioPoint:
    name = str(job["jobname"])
    if job["error"]:
        raise FioError(
            f"fio met error {job['error']} during {what}, {name}.",
            "See whether the cluster and the host are healthy (grampus lab status).",
        )
    side = max((job["read"], job["write"]), key=lambda side: int(side["total_ios"]))
    operations, runtime_ms = int(side["total_ios"]), float(side["runtime"])
    if not operations or not runtime_ms:
        raise FioError(
            f"fio finished no I/O during {what}, {name}.",
            "Give it more time with a larger --scale, or see why the volume is this slow.",
            code="fio-no-io",
        )
    return FioPoint(
        name=name,
        started_at_s=float(job["job_start"]) / 1000,
        runtime_s=runtime_ms / 1000,
        operations=operations,
        iops=float(side["iops"]),
        bytes_per_s=float(side["bw_bytes"]),
        latency=histogram_from_fio(side["lat_ns"]),
        flush=histogram_from_fio(job.get("sync", {}).get("lat_ns", {})),
    )
