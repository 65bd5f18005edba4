"""Sizes in bytes: parsed from and shown in binary units, as `rbd` and `ceph` do."""

from __future__ import annotations

import re
from fractions import Fraction

from grampus.core.errors import UsageError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

# Of operations: ten of them are slower than their 99th percentile. Of fewer, it would be about the
# slowest one.
LEAST_FOR_P99 = 1000
_FACTORS = {None: 1, "K": KIB, "M": MIB, "G": GIB, "T": TIB}
# ASCII: otherwise other scripts' digits, and letters that only fold to ours, would be taken.
_SIZE = re.compile(
    r"(?P<number>\d{1,18}(?:\.\d{1,6})?)\s*(?:(?P<unit>[KMGT])(?:I?B)?|B)?",
    re.IGNORECASE | re.ASCII,
)


def parse_bytes(text: str, *, what: str = "size") -> int:
    """Bytes in `text`, such as `10G`, `512MiB`, `1.5T` or `1073741824`; units are binary.

    Raises UsageError when `text` is no size or is zero.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not {'an' if what[0] in 'AEIOaeio' else 'a'} {what}.",
            "Write a number and a unit, such as 512M or 10G (binary: 1G is 1024M).",
            code="invalid-size",
        )
    unit = match["unit"].upper() if match["unit"] else None
    size_bytes = int(Fraction(match["number"]) * _FACTORS[unit])
    if size_bytes <= 0:
        raise UsageError(
            f"The {what} must be more than zero.",
            "Write a number and a unit, such as 512M or 10G.",
            code="invalid-size",
        )
    return size_bytes


def format_digits(value: float) -> str:
    """Three digits, and the whole part in full: `0.0123`, `4.57`, `12,346`, `1.4e-06`."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def format_bytes(size_bytes: float, digits: int = 1) -> str:
    """`size_bytes` in the largest binary unit that keeps it at 1 or more: `1.5 GiB`, `10 GiB`.

    `digits` are those behind the point of what is not a whole number.
    """
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        # What would be shown as 1024.0 of the next smaller unit is 1.0 of this one.
        if abs(size_bytes) >= factor - 0.05 * factor / 1024:
            value = size_bytes / factor
            is_whole = value == int(value)
            return f"{value:.0f} {unit}" if is_whole else f"{value:.{digits}f} {unit}"
    return f"{size_bytes:.0f} B"


def format_bytes_apart(first_bytes: int, second_bytes: int) -> tuple[str, str]:
    """Both, as `format_bytes`, with as many digits as it takes to see which is more."""
    for digits in range(1, 5):
        texts = format_bytes(first_bytes, digits), format_bytes(second_bytes, digits)
        if texts[0] != texts[1] or first_bytes == second_bytes:
            return texts
    return f"{first_bytes} B", f"{second_bytes} B"


def format_cpus(cpus: float) -> str:
    """Such as `1 CPU` and `0.5 CPUs`."""
    return f"{cpus:g} CPU" if cpus == 1 else f"{cpus:g} CPUs"
