"""How an attached volume does now, as its volumed says: parsed from the control protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.volumes.model import WritePath

# In these the device answers every request with an error: it has to be attached anew.
DEAD_STATES = frozenset({"fenced", "failed", "stopping", "dead"})
# The same, for as long as the daemon runs.
FAILING_STATES = frozenset({"fenced", "failed"})
# Far past any answer of a cluster that works.
SILENCE_MS = 5000.0
# In these the device is there, and can be written to now or later.
SERVING_STATES = frozenset({"running", "paused", "quiesced", "detached", "stalled"})


class KindStatistics(Model):
    """Requests of one kind (read, write, ...) since the daemon started."""

    model_config = ConfigDict(frozen=True)

    operations: int
    bytes: int
    errors: int
    in_flight: int
    p50_us: float | None  # None: there was none yet
    p99_us: float | None


class JournalStatus(Model):
    """A write journal now. Batches are counted from the first of the volume."""

    model_config = ConfigDict(frozen=True)

    state: str  # running, quiescing, quiesced or failed
    epoch: int  # which owner of the volume this is
    fill_ratio: float  # 0 to 1, of memory or of the ring in the cluster, whichever is fuller
    held_bytes: int  # of memory
    used_bytes: int  # of the ring in the cluster
    capacity_bytes: int  # of that ring
    lag_bytes: int  # acknowledged, and not yet durable in the cluster
    lag_ms: float  # the age of the oldest of it
    freed_bytes_per_s: float
    retrying: str | None = None  # what fails now and is tried again
    silent_ms: float | None = None  # since the cluster answered; None: it owes no answer
    sealed: int
    replicated: int
    applied: int
    trimmed: int
    # `cache` while flushes are done once they are durable on the host, else `journal`; None: an
    # older volumed, which knows `journal` alone.
    mode: str | None = None
    degraded: str | None = None  # why a volume with the write path `cache` works as with `journal`
    # Where the log is that the volume had before and that was not found when it was opened: what
    # was acknowledged last and only it held is not in the volume.
    left_behind: str | None = None
    local_used_bytes: int = 0  # of the log on the host
    local_capacity_bytes: int = 0  # 0: there is no such log
    max_lag_ms: float | None = None  # None unless the write path is `cache`
    local_asides: tuple[str, ...] = ()  # logs set aside on the host

    @property
    def silent_s(self) -> float | None:
        """For how long the cluster has not answered; None while that is no cause for concern."""
        if self.silent_ms is None or self.silent_ms < SILENCE_MS:
            return None
        return self.silent_ms / 1000


class JournalCounts(Model):
    """What a write journal has done since it was opened; 0 also for what volumed does not count."""

    model_config = ConfigDict(frozen=True)

    changes: int = 0  # requests that change the volume
    change_bytes: int = 0
    flushes: int = 0
    batches: int = 0
    appends: int = 0  # writes of batches to the ring in the cluster
    append_bytes: int = 0  # with the frames around them
    records: int = 0  # writes of its own to the cluster: who owns it, and what is applied
    applies: int = 0  # writes to the image
    apply_bytes: int = 0
    image_flushes: int = 0
    # Overwritten before they got to the image: within one batch, or after they were appended.
    coalesced_in_batch_bytes: int = 0
    coalesced_settled_bytes: int = 0
    local_appends: int = 0  # writes to the log on the host
    local_append_bytes: int = 0
    delayed: int = 0  # changes that had to wait for room

    @property
    def mean_batch_bytes(self) -> float | None:
        """As appended to the cluster; None: there was no batch yet."""
        return self.append_bytes / self.batches if self.batches else None

    @property
    def coalesced_ratio(self) -> float | None:
        """The part of all bytes written that never had to go to the image, 0 to 1."""
        coalesced_bytes = self.coalesced_in_batch_bytes + self.coalesced_settled_bytes
        return coalesced_bytes / self.change_bytes if self.change_bytes else None

    @property
    def cluster_writes_per_change(self) -> float | None:
        """Writes to RADOS for each request that changes the volume; 1 or more with `direct`."""
        writes = self.appends + self.records + self.applies
        return writes / self.changes if self.changes else None


class ReadCacheStatus(Model):
    """The read cache on the host's own disk, counted since the volume was opened."""

    model_config = ConfigDict(frozen=True)

    on: bool
    off_reason: str | None = None
    capacity_bytes: int = 0
    used_bytes: int = 0
    hits: int = 0
    misses: int = 0
    hit_bytes: int = 0
    miss_bytes: int = 0
    fills: int = 0
    evictions: int = 0
    checksum_failures: int = 0

    @property
    def hit_ratio(self) -> float | None:
        """Of reads, 0 to 1; None: there was none yet."""
        reads = self.hits + self.misses
        return self.hits / reads if reads else None


class LiveVolume(Model):
    """State and statistics of a living attachment.

    `state` is volumed's own word, or `dead` when no daemon answers.
    """

    model_config = ConfigDict(frozen=True)

    state: str
    state_reason: str | None = None
    size_bytes: int | None = None
    client_address: str | None = None  # address:port/nonce of the RADOS client
    lock_owner: bool | None = None
    transport: str | None = None
    transport_reason: str | None = None
    in_flight: int = 0
    oldest_in_flight_ms: float | None = None
    uptime_s: float | None = None
    version: str | None = None
    librbd_version: str | None = None
    write_path: str | None = None
    encryption: str | None = None
    journal: JournalStatus | None = None
    journal_counts: JournalCounts | None = None  # from the statistics
    read_cache: ReadCacheStatus | None = None
    kinds: dict[str, KindStatistics] = Field(default_factory=dict)

    @property
    def is_silent(self) -> bool:
        """Whether its requests wait for a cluster that does not answer."""
        return self.has_waited(SILENCE_MS / 1000)

    def has_waited(self, for_s: float) -> bool:
        """Whether the cluster has given its requests no answer for `for_s` seconds, at most 5."""
        journal_ms = self.journal.silent_ms if self.journal is not None else None
        waits_ms = max(self.oldest_in_flight_ms or 0.0, journal_ms or 0.0)
        return self.state == "stalled" or waits_ms >= for_s * 1000


def is_failing(answer: Any) -> bool:
    """Whether volumed's answer to `status` says that it answers every request with an error."""
    return isinstance(answer, Mapping) and answer.get("state") in FAILING_STATES


def parse_result(text: str) -> dict[str, Any]:
    """The document that `volumed ctl` printed. Raises GrampusError when it is none."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise _unreadable(text)
    return document


def parse_status(document: Mapping[str, Any]) -> LiveVolume:
    """The answer to `status`. Raises GrampusError when it is of another form."""
    transport = document.get("transport") or {}
    try:
        return LiveVolume.model_validate(
            {
                **{name: document[name] for name in LiveVolume.model_fields if name in document},
                "transport": transport.get("name"),
                "transport_reason": transport.get("reason"),
            }
        )
    except ValidationError as error:
        raise _unreadable(str(error.errors()[0]["loc"])) from error


def parse_statistics(document: Mapping[str, Any]) -> dict[str, KindStatistics]:
    """The answer to `statistics`, by kind. Raises GrampusError when it is of another form."""
    try:
        return {
            name: KindStatistics(
                operations=kind["operations"],
                bytes=kind["bytes"],
                errors=kind["errors"],
                in_flight=kind["in_flight"],
                p50_us=_percentile(kind, "p50"),
                p99_us=_percentile(kind, "p99"),
            )
            for name, kind in document["kinds"].items()
        }
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise _unreadable(str(error)) from error


def parse_journal_counts(document: Mapping[str, Any]) -> JournalCounts | None:
    """What the answer to `statistics` counts of the journal; None when there is no journal.

    Raises GrampusError when it is of another form.
    """
    counts = document.get("journal")
    if counts is None:
        return None
    try:
        return JournalCounts.model_validate(counts)
    except ValidationError as error:
        raise _unreadable(str(error.errors()[0]["loc"])) from error


def _percentile(kind: Mapping[str, Any], name: str) -> float | None:
    latency = kind["latency_us"]
    return float(latency[name]) if latency["count"] else None


def _unreadable(text: str) -> GrampusError:
    return GrampusError(
        f"The answer of volumed is not valid: {text[:200]!r}.",
        "Detach and attach the volume again, to use the volumed of this Grampus version.",
        code="volumed-answer",
    )


def note_missing_log(live: LiveVolume | None, write_path: WritePath) -> LiveVolume | None:
    """The same, saying why a volume with `cache` is served as with `journal` where volumed cannot.

    volumed was started without a log then, since its host could not keep one.
    """
    if live is None or live.journal is None or write_path != "cache":
        return live
    if live.journal.mode != "journal" or live.journal.degraded is not None:
        return live
    why = (
        "the host could not keep a log at the attach; repair its disk, then attach the volume again"
    )
    return live.model_copy(update={"journal": live.journal.model_copy(update={"degraded": why})})
