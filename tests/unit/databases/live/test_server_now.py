"""What a running server says of itself."""

from __future__ import annotations

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.live.server_now import ServerNow, parse_server_now


def test_the_one_that_asks_is_not_counted() -> None:
    rows = [("Threads_connected", "13"), ("Uptime", "86520"), ("max_connections", "151")]
    assert parse_server_now(rows) == ServerNow(86520, 12, 151)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("Threads_connected", "1"), ("Uptime", "1")],
        [("Threads_connected", "1"), ("Uptime", "NULL"), ("max_connections", "151")],
    ],
)
def test_what_cannot_be_read_is_told(rows: list[tuple[str, ...]]) -> None:
    with pytest.raises(GrampusError, match="is not valid"):
        parse_server_now(rows)
