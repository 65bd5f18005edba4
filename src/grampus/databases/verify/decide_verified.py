"""What a verification came to, in words. All pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from grampus.databases.verify.decide_restored import RestoredBackup, describe_restored
from grampus.databases.verify.model import TableCheck, VerificationSummary
from grampus.volumes.decide_scrub import ScrubReport, describe_scrub


@dataclass(frozen=True)
class Verification:
    """All that was looked at; None: it was not asked for."""

    database: str
    at: datetime
    scrub: ScrubReport | None
    tables: tuple[TableCheck, ...] | None
    restored: RestoredBackup | None = None

    @property
    def broken_tables(self) -> list[TableCheck]:
        return [check for check in self.tables or () if check.outcome == "broken"]

    @property
    def is_sound(self) -> bool:
        """Nothing is broken now, and the backup that was to be restored has been."""
        is_restored = self.restored is None or self.restored.outcome == "good"
        return (
            (self.scrub is None or self.scrub.is_sound) and not self.broken_tables and is_restored
        )

    @property
    def summary(self) -> VerificationSummary:
        """What is kept of it."""
        parts = []
        if self.scrub is not None:
            parts.append(describe_scrub(self.scrub))
        if self.tables is not None:
            parts.append(describe_tables(self.tables))
        if self.restored is not None:
            parts.append(describe_restored(self.restored))
        said = "; ".join(parts)
        return VerificationSummary(at=self.at, is_sound=self.is_sound, said=said)


def describe_tables(tables: Sequence[TableCheck]) -> str:
    """Checks of tables in a few words, such as `40 tables are sound`."""
    counts = {
        outcome: sum(check.outcome == outcome for check in tables)
        for outcome in ("broken", "sound", "unchecked")
    }
    words = {"broken": "broken", "sound": "sound", "unchecked": "not checked"}
    shown = [f"{count} {words[outcome]}" for outcome, count in counts.items() if count]
    return f"tables: {', '.join(shown) or 'none'}"
