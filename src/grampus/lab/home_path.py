"""Which paths can hold a lab."""

from __future__ import annotations

import re
from pathlib import Path

from grampus.core.errors import UsageError

# What needs no quoting in an overlay's mount options (`,` and `:` part them, `\` escapes), in
# the mount table (white space is escaped there) and in Ceph's own configuration.
_USABLE = re.compile(r"/[A-Za-z0-9_./@+-]*")


def require_usable_home(root: Path) -> Path:
    """Return `root` if a lab can live below it. Raises UsageError otherwise."""
    if _USABLE.fullmatch(str(root)) is None:
        raise UsageError(
            f"A lab cannot live below {str(root)!r}: mounts do not take such a path.",
            "Set GRAMPUS_HOME to a path of letters, digits and the characters _ . - + @ only.",
            code="unusable-home",
        )
    return root
