"""What an operation did to the clients of its database, held to what it promises: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.proof.operations.catalogue import Promise
from tests.proof.operations.restored_rows import Restored, render_restores
from tests.proof.operations.steady_load import LoadDuring


@dataclass(frozen=True)
class Tried:
    """One operation under load."""

    name: str
    took_s: float
    committed: int  # by the watch, meanwhile
    longest_wait_s: float
    failed: int  # statements of the watch that were answered with an error
    load: LoadDuring
    missing: int  # acknowledged rows that were not there afterwards
    said: str  # what a command that failed said; empty: all succeeded
    each_s: list[float] = field(default_factory=list)  # commands that were timed one by one
    kept_back: int = 0  # rows from after a snapshot that a rollback to it has left


def decide_broken(tried: Tried, promise: Promise) -> list[str]:
    """Which of its promises an operation broke, in words."""
    broken = []
    if tried.said:
        broken.append(f"it failed: {tried.said}")
    if tried.missing:
        broken.append(f"{tried.missing} acknowledged commits are lost")
    if tried.kept_back:
        broken.append(f"{tried.kept_back} commits from after the snapshot are still there")
    if promise.is_online and (tried.failed or tried.load.errors or tried.load.reconnects):
        count = tried.failed + tried.load.errors + tried.load.reconnects
        broken.append(f"{count:g} queries failed or had to connect anew")
    if promise.is_online and tried.load.ends:
        broken.append(f"sysbench ended: {tried.load.ends[0]}")
    if promise.pause_s is not None and tried.longest_wait_s > promise.pause_s:
        broken.append(f"a pause of {tried.longest_wait_s:.2f} s, above {promise.pause_s:g} s")
    if promise.most_s is not None and tried.took_s > promise.most_s:
        broken.append(f"it took {tried.took_s:.1f} s, above {promise.most_s:g} s")
    if promise.p50_s is not None and not tried.each_s:
        broken.append("none of its commands was timed")
    elif promise.p50_s is not None and median(tried.each_s) > promise.p50_s:
        broken.append(f"half of them took {median(tried.each_s):.1f} s, above {promise.p50_s:g} s")
    return broken


def render_took(tried: Tried, promise: Promise) -> str:
    """How long it took, and each of its commands that was timed, with what is promised."""
    most = "" if promise.most_s is None else f" of {promise.most_s:g}"
    took = f"{tried.took_s:.1f}{most} s"
    if not tried.each_s:
        return took
    if len(tried.each_s) == 1:
        return f"{took}, {tried.each_s[0]:.1f} s of them"
    half = "" if promise.p50_s is None else f" of {promise.p50_s:g}"
    each = f"p50 {median(tried.each_s):.1f}{half} s, at most {max(tried.each_s):.1f} s"
    return f"{took}; each {each}"


@dataclass(frozen=True)
class SizeTried:
    """All that was tried on a database of one size."""

    held: str  # what its tables held
    tried: list[Tried]
    restored: list[Restored]
    facts: dict[str, str]  # what it ran on, and when
    again: dict[str, str] = field(default_factory=dict)  # those tried apart, and when


def merge_tried(former: SizeTried | None, now: SizeTried, order: Sequence[str]) -> SizeTried:
    """What is known of a size: of each operation its newest trial, in the order of `order`.

    A trial of a few operations replaces those alone. It is told apart from the one before, since it
    had another database, which was made in the same way.
    """
    if former is None or {one.name for one in now.tried} >= set(order):
        return now
    tried = {one.name: one for one in (*former.tried, *now.tried)}
    date = now.facts["date"]
    again = {**former.again, **{one.name: date for one in now.tried}}
    again = {name: date for name, date in again.items() if date != former.facts["date"]}
    return SizeTried(
        held=former.held,
        tried=[tried[name] for name in order if name in tried],
        restored=now.restored or former.restored,
        facts=former.facts,
        again=again,
    )


def find_untried(size: SizeTried, order: Sequence[str]) -> list[str]:
    """The operations that a size has not seen yet."""
    there = {one.name for one in size.tried}
    return [name for name in order if name not in there]


def render_page(
    sizes: Sequence[SizeTried],
    promises: Mapping[str, Promise],
    missing: Sequence[str] = (),
    where: str = "on a real lab",
    title: str = "Operations under load",
) -> str:
    """The page of docs/proof; `promises` by the name of the operation, `where` they were tried.

    `missing` are the sizes of databases that have not been tried to the end.
    """
    lines = [
        f"# {title}",
        "",
        f"Written by `make operations`, {where}. While each operation runs, sysbench's "
        "oltp_read_write works on the database at a fixed rate (4 threads, over the network and "
        "TLS, from another host), and a client commits one row after the other and notes each "
        "acknowledgement. Afterwards every acknowledged row must be there.",
        "",
        "*longest wait*: the longest time between two acknowledged commits of that client, its own "
        "20 ms between rows included. *failed*: its statements that were answered with an error, "
        "and sysbench's errors and new connections. *p99*: sysbench's, of the worst second. "
        "A rollback takes back what was committed since its snapshot, and nothing else; a promoted "
        "replica holds all that was committed before it was asked for.",
    ]
    for size in sizes:
        tried = [(one, promises[one.name]) for one in size.tried]
        good = sum(not decide_broken(one, promise) for one, promise in tried)
        lines += [
            "",
            f"## A database with {size.held} in its tables",
            "",
            f"**{good} of {len(tried)} kept what they promise.**",
            "",
            "| operation | took | commits meanwhile | longest wait | failed | transactions/s "
            "| p99 | lost | |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---|",
        ]
        for one, promise in tried:
            failed = one.failed + one.load.errors + one.load.reconnects
            limit = "" if promise.pause_s is None else f" of {promise.pause_s:g}"
            said = "; ".join(decide_broken(one, promise)) or (
                "kept" if promise.is_online else "kept; the server is stopped and started"
            )
            lines.append(
                f"| {one.name} | {render_took(one, promise)} | {one.committed} "
                f"| {one.longest_wait_s:.2f}{limit} s | {failed:g} "
                f"| {one.load.transactions_per_s:.1f} | {one.load.latency_p99_ms:.0f} ms "
                f"| {one.missing} | {said} |"
            )
        if size.restored:
            lines += render_restores(size.restored)
        lines += ["", "; ".join(f"{name} {value}" for name, value in size.facts.items()) + "."]
        if size.again:
            apart = ", ".join(f"{name} ({date})" for name, date in size.again.items())
            lines += ["", f"Tried apart, on another database that was made alike: {apart}."]
        if untried := find_untried(size, tuple(promises)):
            lines += ["", f"Not tried yet: {', '.join(untried)}."]
    for size_text in missing:
        lines += ["", f"## A database of {size_text}", "", "Not tried to the end yet."]
    return "\n".join([*lines, ""])
