"""What `grampus serve` says of a volume whose cluster is silent."""

from __future__ import annotations

import pytest

from grampus.cli.serve_volumes import decide_warning
from grampus.volumes.live import JournalStatus, LiveVolume
from tests.unit.volumes.volumed_answers import journal_status


def _seen(state: str, silent_ms: float | None) -> LiveVolume:
    journal = JournalStatus.model_validate({**journal_status(3, "journal"), "silent_ms": silent_ms})
    return LiveVolume(state=state, journal=journal)


@pytest.mark.parametrize(
    ("live", "warns"),
    [
        (None, False),
        (LiveVolume(state="running"), False),
        (LiveVolume(state="unknown", state_reason="h1 cannot be reached"), False),
        (LiveVolume(state="stalled"), True),
        (_seen("running", None), False),
        (_seen("running", 900.0), False),
        # Users are answered from memory, and nothing of it is durable.
        (_seen("paused", 75_000.0), True),
    ],
)
def test_an_outage_is_warned_of_and_reads_the_same_as_long_as_it_lasts(
    live: LiveVolume | None, warns: bool
) -> None:
    event = decide_warning("shop", live)
    assert (event is not None) == warns
    if event is not None:
        assert (event.database, event.kind, event.level) == ("shop", "volume-stalled", "warning")
        assert "75" not in event.text
