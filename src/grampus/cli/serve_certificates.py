"""What `grampus serve` does for certificates: keeps copies, says in time which ones end."""

from __future__ import annotations

from datetime import datetime

from grampus.core.errors import GrampusError
from grampus.databases.controller.due_jobs import ControllerEvent, failure_of
from grampus.databases.tls.certificate_rotation import CertificateRotation
from grampus.databases.tls.decide_expiry import decide_warning

CERTIFICATES_EVERY_S = 3600.0


def warn_of_expiry(rotation: CertificateRotation, now: datetime) -> list[ControllerEvent]:
    """A warning for each database whose server's certificate ends within weeks.

    Copies of all certificates are kept on the way: a host that is lost takes its own away.
    """
    rotation.keep_copies()
    events = []
    for name, state in rotation.all().items():
        if isinstance(state, GrampusError):
            events.append(failure_of(name, state))
            continue
        warning = decide_warning(name, state, now)
        if warning is not None:
            text, remedy = warning
            details = {"expires_at": state.expires_at}
            events.append(
                ControllerEvent(name, "certificate-ends", text, "warning", details, remedy)
            )
    return events
