"""A write journal and a read cache, for people."""

from __future__ import annotations

from grampus.core.clock import format_duration
from grampus.core.units import format_bytes
from grampus.volumes.journals import Replayed
from grampus.volumes.live import JournalCounts, JournalStatus, ReadCacheStatus


def describe_replayed(replayed: Replayed) -> str:
    """What a replay did, for people."""
    frames, size = replayed.replayed_frames, format_bytes(replayed.replayed_bytes)
    if replayed.given_up is not None:
        return (
            f"Applied {frames} frames of the journal, {size}. The rest is lost: "
            f"{replayed.given_up}. Check the file system before you use the volume."
        )
    if frames:
        return f"Applied {frames} frames of the journal, {size}. The image is complete."
    return "The journal was empty. The image is complete."


def details_of_journal(journal: JournalStatus | None) -> dict[str, str]:
    """A write journal now, for people."""
    if journal is None:
        return {}
    retrying = f", retrying: {journal.retrying}" if journal.retrying else ""
    if journal.silent_s is not None:
        retrying += f", no answer from the cluster for {format_duration(journal.silent_s)}"
    used, capacity = format_bytes(journal.used_bytes), format_bytes(journal.capacity_bytes)
    oldest = format_duration(journal.lag_ms / 1000)
    if journal.max_lag_ms is not None:
        oldest += f", of at most {format_duration(journal.max_lag_ms / 1000)}"
    pairs = {
        "journal": f"{journal.state}, {journal.fill_ratio:.0%} full{retrying}",
        "journal holds": f"{used} of {capacity} in the cluster, "
        f"{format_bytes(journal.held_bytes)} in memory",
        "journal lag": f"{format_bytes(journal.lag_bytes)}, oldest {oldest}",
    }
    if journal.local_capacity_bytes:
        local = format_bytes(journal.local_used_bytes)
        pairs["log on host"] = f"{local} of {format_bytes(journal.local_capacity_bytes)}"
    if journal.left_behind is not None:
        pairs["left behind"] = (
            f"the log {journal.left_behind} was missing when the volume was opened; commits "
            "within the lag of that time can be lost"
        )
    if journal.degraded is not None:
        pairs["degraded"] = (
            f"works as with the write path {journal.mode}, not cache: {journal.degraded}"
        )
    return pairs


def details_of_counts(counts: JournalCounts | None) -> dict[str, str]:
    """What a write journal has done, for people."""
    if counts is None or counts.mean_batch_bytes is None:
        return {}
    parts = [f"{counts.batches} of {format_bytes(counts.mean_batch_bytes)}"]
    if counts.coalesced_ratio is not None:
        parts.append(f"{counts.coalesced_ratio:.0%} of all bytes overwritten before the image")
    if counts.cluster_writes_per_change is not None:
        parts.append(f"{counts.cluster_writes_per_change:.2f} writes to RADOS for each write")
    if counts.delayed:
        parts.append(f"{counts.delayed} writes had to wait")
    return {"batches": ", ".join(parts)}


def details_of_read_cache(cache: ReadCacheStatus | None) -> dict[str, str]:
    """The read cache now, for people."""
    if cache is None:
        return {}
    if not cache.on:
        return {"read cache": f"off ({cache.off_reason or 'no reason given'})"}
    hits = "nothing read yet" if cache.hit_ratio is None else f"{cache.hit_ratio:.0%} of reads hit"
    used, capacity = format_bytes(cache.used_bytes), format_bytes(cache.capacity_bytes)
    bad = f", {cache.checksum_failures} checksums failed" if cache.checksum_failures else ""
    return {"read cache": f"{hits}, {used} of {capacity}{bad}"}
