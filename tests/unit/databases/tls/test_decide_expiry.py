"""When a certificate ends, and who is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.tls.decide_expiry import (
    CertificateState,
    decide_warning,
    describe_state,
    parse_expiry,
)

ENDS = datetime(2036, 11, 21, 12, 59, 50, tzinfo=UTC)


def test_what_openssl_prints_is_a_moment() -> None:
    assert parse_expiry("notAfter=2036-11-21 12:59:50Z\n") == ENDS


@pytest.mark.parametrize("text", ["", "notAfter=Nov 21 12:59:50 2036 GMT\n", "unable to load"])
def test_what_is_no_moment_is_an_error(text: str) -> None:
    with pytest.raises(GrampusError):
        parse_expiry(text)


@pytest.mark.parametrize(
    ("left_days", "is_rotated", "text", "verb"),
    [
        (61, False, None, None),
        (60, False, "expires on 2036-11-21", "rotate"),
        (1, True, "expires on 2036-11-21", "retire"),
        (0, False, "expired on 2036-11-21", "rotate"),
        (-9, True, "expired on 2036-11-21", "retire"),
    ],
)
def test_a_warning_comes_in_time_and_says_what_to_do(
    left_days: int, is_rotated: bool, text: str | None, verb: str | None
) -> None:
    state = CertificateState(ENDS, is_rotated)
    warning = decide_warning("shop", state, ENDS - timedelta(days=left_days))
    if text is None:
        assert warning is None
    else:
        assert warning is not None
        assert text in warning[0]
        assert f"`grampus db certificate {verb} shop`" in warning[1]


def test_people_read_until_when_it_is_good() -> None:
    assert describe_state(CertificateState(ENDS, False)) == "valid until 2036-11-21 12:59:50 UTC"
    assert "a new one is ready" in describe_state(CertificateState(ENDS, True))
