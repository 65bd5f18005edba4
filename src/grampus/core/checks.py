"""Something that was looked at before it is used: a cluster, a host, and how it was judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

# `refused`: it cannot be used, or data would be lost; `warning`: the administrator judges.
Verdict = Literal["ok", "warning", "refused"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: Verdict
    sentence: str
    remedy: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "remedy": self.remedy or None,
        }
