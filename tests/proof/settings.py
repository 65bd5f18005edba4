"""What the environment asks of the proof: parsed, and pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.proof.decide_crashes import WRITE_PATHS, WritePath, parse_write_paths
from tests.proof.render_pages import PartName

DEFAULT_SEED = 20261121
DEFAULT_LIMIT_S = 8 * 3600
# With so many of each, the pages of docs/proof are written.
FULL: dict[PartName, int] = {"crashes": 200, "fences": 100, "databases": 10}
_VARIABLES: dict[PartName, str] = {
    "crashes": "GRAMPUS_CRASHES",
    "fences": "GRAMPUS_FENCES",
    "databases": "GRAMPUS_DB_CRASHES",
}


@dataclass(frozen=True)
class ProofSettings:
    """How much to crash, and with which draws."""

    totals: Mapping[PartName, int]
    seed: int
    write_paths: tuple[WritePath, ...]
    limit_s: float  # nothing is begun after so long; the next run goes on


def parse_settings(environment: Mapping[str, str]) -> ProofSettings:
    """The settings in the environment's variables. Raises ValueError in a sentence."""
    paths = environment.get("GRAMPUS_CRASHES_WRITE_PATHS") or ",".join(WRITE_PATHS)
    return ProofSettings(
        totals={
            part: _parse_count(environment, _VARIABLES[part], default)
            for part, default in FULL.items()
        },
        seed=_parse_count(environment, "GRAMPUS_CRASHES_SEED", DEFAULT_SEED),
        write_paths=parse_write_paths(paths),
        limit_s=_parse_count(environment, "GRAMPUS_CRASHES_LIMIT_S", DEFAULT_LIMIT_S),
    )


def decide_is_full(part: PartName, settings: ProofSettings, done: int) -> bool:
    """Whether a part is as long as the proof in docs/proof must be, and over."""
    is_whole = settings.write_paths == WRITE_PATHS and settings.totals[part] >= FULL[part]
    return is_whole and done >= settings.totals[part]


def _parse_count(environment: Mapping[str, str], variable: str, default: int) -> int:
    text = environment.get(variable) or str(default)
    if not text.isdecimal():
        raise ValueError(f"{variable} is '{text}': give a whole number.")
    return int(text)
