"""When a server's certificate ends, and who is to be told of it when. All pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from grampus.core.clock import format_moment
from grampus.core.errors import GrampusError

# Clients must be given a new authority, one after the other: time for that.
WARN_BEFORE = timedelta(days=60)
_NOT_AFTER = "notAfter="


@dataclass(frozen=True)
class CertificateState:
    """The certificate that a server shows."""

    expires_at: datetime
    is_rotated: bool  # another one lies ready, and its authority is trusted already


def parse_expiry(text: str) -> datetime:
    """From what `openssl x509 -enddate -dateopt iso_8601` prints. Raises GrampusError."""
    try:
        return datetime.fromisoformat(text.strip().removeprefix(_NOT_AFTER))
    except ValueError:
        raise GrampusError(
            f"openssl reports an end date of a certificate that is not valid: {text.strip()!r}.",
            "Check the certificate with `openssl x509 -text`.",
        ) from None


def describe_state(state: CertificateState) -> str:
    """In one line, for people."""
    until = f"valid until {format_moment(state.expires_at)}"
    return f"{until}; a new one is ready" if state.is_rotated else until


def decide_warning(name: str, state: CertificateState, now: datetime) -> tuple[str, str] | None:
    """What is wrong and what to do, as sentences; None: there is time left."""
    if state.expires_at - now > WARN_BEFORE:
        return None
    what = "expired" if state.expires_at <= now else "expires"
    verb = "retire" if state.is_rotated else "rotate"
    does = "switches the server to its new one" if state.is_rotated else "creates a new one"
    return (
        f"The certificate of the server of {name} {what} on {format_moment(state.expires_at)}.",
        f"`grampus db certificate {verb} {name}` {does}.",
    )
