"""What is asked of the MONs in JSON, in the words of `ceph`, which fakes of a cluster answer to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grampus.ceph.mon_commands import ASK_MONS

# Of `ceph` they are options; all others are words in their order.
_VALUED_OPTIONS = ("autoscale_mode",)


def as_ceph_command(argv: Sequence[str]) -> list[str]:
    """The command line of `ceph` that asks the same; what asks no MON stays as it is."""
    if list(argv[:3]) != ["python3", "-c", ASK_MONS]:
        return list(argv)
    document = json.loads(argv[3])
    words = document.pop("prefix").split()
    form = document.pop("format", None)
    for name, value in document.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif name in _VALUED_OPTIONS:
            words.append(f"{option}={value}")
        else:
            words += value if isinstance(value, list) else [_shown(value)]
    words += ["-i", "-"] if argv[5:] else []
    connect = ["--connect-timeout", "20"]
    return ["ceph", *connect, *words, *(["--format", form] if form else [])]


def _shown(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)
