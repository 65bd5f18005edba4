"""What every driver's command begins with."""

from __future__ import annotations

from collections.abc import Sequence

KILL_AFTER_S = 5


def bounded_argv(argv: Sequence[str], *, timeout_s: int) -> list[str]:
    """The command in the C locale (decimal points), ended with code 124 after `timeout_s`."""
    return [
        "env",
        "LC_ALL=C",
        "timeout",
        "--foreground",
        f"--kill-after={KILL_AFTER_S}",
        str(timeout_s),
        *argv,
    ]
