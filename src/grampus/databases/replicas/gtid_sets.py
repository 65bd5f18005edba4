"""Sets of transactions as servers name them, and how many one has that another lacks: pure.

MySQL: `UUID:1-5:7,UUID:TAG:1-2`. MariaDB names the last transaction of each domain alone
(`0-1-5`), and a domain's transactions are numbered without gaps, so that `0-1-5` is 1 to 5 of
domain 0. Source: the servers' manuals, on GTID sets and on `gtid_binlog_pos`.
"""

from __future__ import annotations

from collections.abc import Mapping

from grampus.core.errors import GrampusError
from grampus.databases.model import FlavourName

# Intervals by source, first and last transaction both inside.
GtidSet = Mapping[str, tuple[tuple[int, int], ...]]
_SHOWN_INTERVALS = 8  # in a message


def parse_gtid_set(flavour: FlavourName, text: str) -> GtidSet:
    """The transactions that `text` names. Raises GrampusError when it names none so."""
    found: dict[str, list[tuple[int, int]]] = {}
    words = [word for word in (part.strip() for part in text.split(",")) if word]
    try:
        for word in words:
            parse = _parse_mysql if flavour == "mysql" else _parse_mariadb
            for source, interval in parse(word):
                found.setdefault(source, []).append(interval)
    except ValueError:
        raise GrampusError(
            f"The server's GTID set is not valid: {text[:120]!r}.",
            "`grampus db connect NAME -e 'SELECT @@gtid_executed'` shows the GTIDs; for "
            "MariaDB, use `grampus db connect NAME -e 'SELECT @@gtid_current_pos'`.",
        ) from None
    return {source: _merged(intervals) for source, intervals in found.items()}


def count_missing(wanted: GtidSet, there: GtidSet) -> int:
    """How many transactions of `wanted` are not in `there`."""
    return sum(
        sum(last - first + 1 for first, last in _without(interval, there.get(source, ())))
        for source, intervals in wanted.items()
        for interval in intervals
    )


def subtract(these: GtidSet, those: GtidSet) -> GtidSet:
    """The transactions of `these` that are not in `those`."""
    whole, taken = unite(these), unite(those)
    left = {
        source: tuple(
            piece for interval in intervals for piece in _without(interval, taken.get(source, ()))
        )
        for source, intervals in whole.items()
    }
    return {source: pieces for source, pieces in left.items() if pieces}


def intersect(one: GtidSet, other: GtidSet) -> GtidSet:
    """The transactions that are in both."""
    return subtract(one, subtract(one, other))


def unite(*sets: GtidSet) -> GtidSet:
    """The transactions that are in any of them."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one in sets:
        for source, intervals in one.items():
            found.setdefault(source, []).extend(intervals)
    return {source: _merged(intervals) for source, intervals in found.items()}


def has(transactions: GtidSet, source: str, number: int) -> bool:
    """Whether that transaction is among them."""
    return any(first <= number <= last for first, last in transactions.get(source, ()))


def count(transactions: GtidSet) -> int:
    return count_missing(transactions, {})


def render_gtid_set(transactions: GtidSet) -> str:
    """`UUID:1-5:7,UUID:TAG:1-2`, as MySQL reads it; of MariaDB `DOMAIN:96-100`, for people.

    `parse_rendered` reads both again.
    """
    return ",".join(
        f"{source}:" + ":".join(str(a) if a == b else f"{a}-{b}" for a, b in intervals)
        for source, intervals in sorted(transactions.items())
        if intervals
    )


def describe_gtid_set(transactions: GtidSet) -> str:
    """The same for a message: cut short where there are many intervals, `none` where none."""
    words = [
        f"{source}:{first}" if first == last else f"{source}:{first}-{last}"
        for source, intervals in sorted(transactions.items())
        for first, last in intervals
    ]
    more = len(words) - _SHOWN_INTERVALS
    shown = ", ".join(words[:_SHOWN_INTERVALS])
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def parse_rendered(text: str) -> GtidSet:
    """What `render_gtid_set` wrote, of either server. Raises GrampusError as `parse_gtid_set`."""
    return parse_gtid_set("mysql", text)


def _parse_mysql(word: str) -> list[tuple[str, tuple[int, int]]]:
    uuid, *parts = (part.strip() for part in word.split(":"))
    if not uuid or not parts:
        raise ValueError(word)
    source, found = uuid.lower(), []
    for part in parts:
        if not part[:1].isdigit():  # a tag begins with a letter; intervals after it belong to it
            source = f"{uuid.lower()}:{part.lower()}"
            continue
        first, _, last = part.partition("-")
        found.append((source, (int(first), int(last or first))))
    return found


def _parse_mariadb(word: str) -> list[tuple[str, tuple[int, int]]]:
    domain, _server, number = word.split("-")
    return [(str(int(domain)), (1, int(number)))]


def _merged(intervals: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sorted, without overlaps: a transaction counts once, however often it is named."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _without(
    interval: tuple[int, int], taken: tuple[tuple[int, int], ...]
) -> list[tuple[int, int]]:
    """What is left of `interval` without the intervals of `taken`, which are sorted."""
    first, last = interval
    left = []
    for taken_first, taken_last in taken:
        if taken_last < first or taken_first > last:
            continue
        if taken_first > first:
            left.append((first, taken_first - 1))
        first = max(first, taken_last + 1)
    if first <= last:
        left.append((first, last))
    return left
