"""Named places where a test can stop the process, to prove that work is safe to interrupt.

`GRAMPUS_FAILPOINTS` holds comma-separated `NAME=ACTION`; ACTION is `kill` (SIGKILL to
ourselves, as `kill -9` or a power cut would), `stop` (SIGSTOP, until somebody sends SIGCONT) or
`error` (raise FailpointError). A name may end in `*`. Without the variable a failpoint costs one
dictionary look-up.
"""

from __future__ import annotations

import fnmatch
import os
import signal

from grampus.core.errors import GrampusError, UsageError

VARIABLE = "GRAMPUS_FAILPOINTS"


class FailpointError(GrampusError):
    """Raised by a failpoint whose action is `error`."""

    default_code = "failpoint"


def failpoint(name: str) -> None:
    """Do what `GRAMPUS_FAILPOINTS` says about `name`, normally nothing."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return
    for entry in setting.split(","):
        pattern, _, action = (part.strip() for part in entry.partition("="))
        if not fnmatch.fnmatchcase(name, pattern):
            continue
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action == "error":
            raise FailpointError(f"The failpoint {name} was reached.")
        else:
            raise UsageError(
                f"{VARIABLE} has an unknown action {action!r}.", "Use kill, stop or error."
            )
