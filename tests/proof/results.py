"""What each crash did, kept as soon as it is known: one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.proof.decide_crashes import WritePath
from tests.proof.outcome import GOOD, Verdict


@dataclass(frozen=True)
class Result:
    """What one crash, fence or loss of a database's host did.

    `acknowledged` are flushes of a volume, commits of a database.
    """

    number: int
    write_path: WritePath
    kind: str
    verdict: Verdict
    at: str  # when it was over, UTC, ISO 8601
    took_s: float
    reasons: tuple[str, ...] = ()
    acknowledged: int = 0
    acknowledged_writes: int = 0
    lost: int = 0  # of `acknowledged`
    lost_age_ms: float | None = None
    recovery_s: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.verdict in GOOD


def parse_result(line: str) -> Result | None:
    """The result in a line; None for a line that was cut off."""
    try:
        document = json.loads(line)
    except json.JSONDecodeError:
        return None
    return Result(**{**document, "reasons": tuple(document["reasons"])})


class ResultLog:
    """The results of one part of the proof."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def load(self) -> list[Result]:
        """All results so far, by number."""
        if not self.file.exists():
            return []
        results = (parse_result(line) for line in self.file.read_text().splitlines())
        return sorted((one for one in results if one is not None), key=lambda one: one.number)

    def append(self, result: Result) -> None:
        """Keep a result; it is durable when this returns."""
        is_cut = self.file.exists() and not self.file.read_bytes().endswith(b"\n")
        with self.file.open("a") as file:
            file.write(("\n" if is_cut and self.file.stat().st_size else "") + _line(result))
            file.flush()
            os.fsync(file.fileno())


def _line(result: Result) -> str:
    return json.dumps(asdict(result)) + "\n"


def ensure_same_proof(directory: Path, identity: Mapping[str, object], stamp: str) -> bool:
    """Whether the results in `directory` are of the proof `identity`, to go on with.

    Those of another one (another program, another seed) are set aside in `earlier/STAMP`.
    """
    file = directory / "proof.json"
    directory.mkdir(parents=True, exist_ok=True)
    if file.exists() and json.loads(file.read_text()) == dict(identity):
        return True
    earlier = [path for path in (file, *directory.glob("*.jsonl")) if path.exists()]
    if earlier:
        aside = directory / "earlier" / stamp
        aside.mkdir(parents=True)
        for path in earlier:
            path.rename(aside / path.name)
    file.write_text(json.dumps(dict(identity), indent=2) + "\n")
    return False
