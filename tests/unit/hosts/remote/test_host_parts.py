"""What a host has of Grampus, compared with what this Grampus would put there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.core.errors import RefusedError
from grampus.hosts.remote import host_parts
from grampus.hosts.remote.host_parts import (
    LACKS_IMAGE,
    OTHER_PARTS,
    HostParts,
    PartsState,
    classify_parts,
    explain_refusal,
    explain_state,
    is_later,
    parse_parts,
    render_parts,
    require_upgradable,
)

OWN = HostParts(2, "0.3.0", "sid-2", "d2")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (OWN, "current"),
        (replace(OWN, version="0.2.0"), "current"),
        (replace(OWN, version="0.4.0"), "current"),
        (replace(OWN, image_id="sid-1"), "older"),
        (replace(OWN, version="0.2.9", image_id="sid-1"), "older"),
        (replace(OWN, version="", image_id="sid-1"), "older"),
        (replace(OWN, version="0.10.0", image_id="sid-3"), "newer"),
        (replace(OWN, format=3), "too-new"),
        (replace(OWN, format=1), "older"),
        (replace(OWN, format=0), "too-old"),
    ],
)
def test_parts_are_compared(
    monkeypatch: pytest.MonkeyPatch, found: HostParts, state: PartsState
) -> None:
    monkeypatch.setattr(host_parts, "OLDEST_FORMAT", 1)
    assert classify_parts(found, OWN) == state
    sentence, remedy = explain_state("db1", found, OWN)
    assert sentence.endswith(".")
    if state == "current":
        assert remedy == ""
    elif state in ("newer", "too-new"):
        assert remedy == "Upgrade Grampus on this machine."
        with pytest.raises(RefusedError) as refused:
            require_upgradable("db1", found, OWN)
        assert refused.value.code == "newer-host"
    else:
        assert "`grampus host upgrade db1`" in remedy
        require_upgradable("db1", found, OWN)


@pytest.mark.parametrize(
    "parts", [OWN, HostParts(1, "", "sid-1", ""), HostParts(12, "0.2.0", "trixie-1", "e" * 64)]
)
def test_the_file_says_what_was_written(parts: HostParts) -> None:
    assert parse_parts(render_parts(parts)) == parts


@pytest.mark.parametrize("text", ["", "1 0.2.0 sid-1", "x 0.2.0 sid-1 d", "1 0.2.0 sid-1 d more"])
def test_a_damaged_file_says_nothing(text: str) -> None:
    assert parse_parts(text) is None


@pytest.mark.parametrize(
    ("version", "other", "later"),
    [
        ("0.10.0", "0.9.9", True),
        ("0.2.0", "0.2.0", False),
        ("0.2.0", "", True),
        ("", "0.2.0", False),
        ("0.2.1.dev3", "0.2.0", True),
    ],
)
def test_versions_are_compared_by_number(version: str, other: str, later: bool) -> None:
    assert is_later(version, other) is later


@pytest.mark.parametrize(
    ("said", "code", "words", "remedy"),
    [
        (
            f"{LACKS_IMAGE} sid-1 sid-2 0.3.0\n",
            "host-parts",
            "does not have the host image sid-1. It has sid-2, of Grampus 0.3.0.",
            "`grampus host upgrade db1`",
        ),
        (
            f"{LACKS_IMAGE} sid-1 - -\n",
            "host-parts",
            "does not have the host image sid-1.",
            "`grampus host upgrade db1`",
        ),
        (
            f"{OTHER_PARTS} 9 1.0.0\n",
            "newer-host",
            "of Grampus 1.0.0 on db1 are too new",
            "Upgrade",
        ),
        (
            f"{OTHER_PARTS} 0 0.1.0\n",
            "host-parts",
            "are too old for this Grampus",
            "`grampus host upgrade db1`",
        ),
        (f"{OTHER_PARTS} unknown -\n", "host-parts", "is damaged", "`grampus host add db1"),
    ],
)
def test_a_host_that_refuses_is_explained(said: str, code: str, words: str, remedy: str) -> None:
    error = explain_refusal("db1", f"Warning: something else\n{said}")
    assert error.code == code
    assert words in error.problem
    assert remedy in error.remedy
