"""Sizes in bytes: parsed from and shown in binary units, as `rbd` and `ceph` do."""

from __future__ import annotations

import re

from grampus.core.errors import UsageError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

_FACTORS = {"": 1, "B": 1, "K": KIB, "M": MIB, "G": GIB, "T": TIB}
_SIZE = re.compile(
    r"(?P<number>\d{1,15}(?:\.\d{1,6})?)\s*(?P<unit>[BKMGT]?)(?:I?B)?", re.IGNORECASE
)


def parse_bytes(text: str, *, what: str = "size") -> int:
    """Bytes in `text`, such as `10G`, `512MiB`, `1.5T` or `1073741824`; units are binary.

    Raises UsageError when `text` is no size or is zero.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a {what}.",
            "Write a number and a unit, such as 512M or 10G (binary: 1G is 1024M).",
            code="invalid-size",
        )
    size_bytes = int(float(match["number"]) * _FACTORS[match["unit"].upper()])
    if size_bytes <= 0:
        raise UsageError(f"The {what} must be more than zero.", code="invalid-size")
    return size_bytes


def format_bytes(size_bytes: float) -> str:
    """`size_bytes` in the largest binary unit that keeps it at 1 or more: `1.5 GiB`, `10 GiB`."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size_bytes) >= factor:
            value = size_bytes / factor
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
    return f"{size_bytes:.0f} B"
