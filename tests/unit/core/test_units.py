from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grampus.core.errors import UsageError
from grampus.core.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_bytes,
    format_bytes_apart,
    format_cpus,
    format_digits,
    parse_bytes,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1", 1),
        ("1073741824", GIB),
        ("512B", 512),
        ("512b", 512),
        ("4K", 4 * KIB),
        ("512M", 512 * MIB),
        ("10G", 10 * GIB),
        ("10g", 10 * GIB),
        ("10GB", 10 * GIB),
        ("10GiB", 10 * GIB),
        ("10 GiB", 10 * GIB),
        ("  10G\n", 10 * GIB),
        ("1.5T", TIB + TIB // 2),
        ("0.5K", 512),
        ("007M", 7 * MIB),
        # Exact where a float no longer is.
        ("9007199254740993", 9007199254740993),
        ("999999999999999999", 999999999999999999),
        ("0.000001T", 1099511),
    ],
)
def test_parsed(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "G",
        "ten",
        "-5G",
        "+5G",
        "1e9",
        "0x10",
        "1,5G",
        "1.G",
        ".5G",
        "1.2.3G",
        "10P",
        "10BB",
        "10iB",
        "10BiB",
        "10GG",
        "10Gi",
        "10G x",
        "10G;reboot",
        "10\u212a",  # the Kelvin sign folds to k
        "1\u0131B",  # a dotless i folds to I
        "\u0661\u0660G",  # digits, but of another script
        "nan",
        "inf",
        "9" * 19,
        "9" * 10_000,
    ],
)
def test_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a memory size") as caught:
        parse_bytes(text, what="memory size")
    assert caught.value.code == "invalid-size"
    assert "10G" in caught.value.remedy


@pytest.mark.parametrize("text", ["0", "0G", "0.0T", "0.4"])
def test_nothing_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="must be more than zero"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (KIB, "1 KiB"),
        (1536, "1.5 KiB"),
        (MIB - 1, "1.0 MiB"),
        (GIB - 1, "1.0 GiB"),
        (10 * GIB, "10 GiB"),
        (GIB + 1, "1.0 GiB"),
        (2048 * TIB, "2048 TiB"),
        (-5 * MIB, "-5 MiB"),
        (1.5 * GIB, "1.5 GiB"),
    ],
)
def test_shown(size_bytes: float, text: str) -> None:
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        (8 * GIB, 9 * GIB, ("8 GiB", "9 GiB")),
        (int(8.16 * GIB), int(8.24 * GIB), ("8.16 GiB", "8.24 GiB")),
        (GIB + 1, GIB + 2, (f"{GIB + 1} B", f"{GIB + 2} B")),
        (GIB + 1, GIB + 1, ("1.0 GiB", "1.0 GiB")),
        (100, 101, ("100 B", "101 B")),
    ],
)
def test_two_sizes_that_differ_are_shown_so(
    first: int, second: int, texts: tuple[str, str]
) -> None:
    assert format_bytes_apart(first, second) == texts


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=10**17))
def test_plain_bytes_come_back_exactly(size_bytes: int) -> None:
    assert parse_bytes(str(size_bytes)) == size_bytes


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=1023), st.sampled_from(["K", "M", "G", "T"]))
def test_whole_units_are_shown_as_they_were_written(number: int, unit: str) -> None:
    assert format_bytes(parse_bytes(f"{number}{unit}")) == f"{number} {unit}iB"


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=1023 * TIB))
def test_what_is_shown_can_be_typed_and_is_right_within_a_twentieth(size_bytes: int) -> None:
    shown = format_bytes(size_bytes)
    assert abs(parse_bytes(shown) - size_bytes) <= size_bytes * 0.05
    assert not shown.startswith("1024")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.0123"),
        (4.567, "4.57"),
        (438.2, "438"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1253.0, "1,253"),
        (-1253.0, "-1,253"),
        (12345678.9, "12,345,679"),
        (1.4e-6, "1.4e-06"),
        (0.0, "0"),
        (float("inf"), "inf"),
    ],
)
def test_digits_shown(value: float, text: str) -> None:
    assert format_digits(value) == text


@pytest.mark.parametrize(
    ("cpus", "text"), [(1, "1 CPU"), (1.0, "1 CPU"), (0.5, "0.5 CPUs"), (2, "2 CPUs")]
)
def test_cpus_are_counted(cpus: float, text: str) -> None:
    assert format_cpus(cpus) == text
