"""How far a run of `paths` can be trusted, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.bench.paths.intervals import MIN_ROUNDS
from grampus.bench.verdicts import BUSY_MACHINE_SHARE
from grampus.state.runs import PathsRun

# Shorter jobs say little about what happens once a second or less often.
SHORT_RUNTIME_MS = 5000


def decide_paths_warnings(
    run: PathsRun,
    *,
    problems: Sequence[str],
    runtimes_ms: Sequence[int],
    wanted_runtime_ms: int,
    busy_cores_before: float | None,
    cores: int,
) -> list[str]:
    """What limits the trust in `run`: what failed first, then the conditions."""
    warnings = list(problems)
    incomplete = sorted({one.arm for one in run.results if one.rounds < run.rounds})
    if incomplete:
        warnings.append(
            f"Fewer than {run.rounds} rounds were measured on {', '.join(incomplete)}: each "
            "comparison says how many it has."
        )
    if run.rounds < MIN_ROUNDS:
        warnings.append(
            f"{run.rounds} rounds are too few to judge: no target counts as reached or missed "
            f"with fewer than {MIN_ROUNDS}."
        )
    lowest = min((one.confidence for one in run.comparisons), default=1.0)
    if run.rounds >= MIN_ROUNDS and lowest < 0.95:
        warnings.append(
            f"The intervals hold the true median with {lowest:.1%}, not 95%: that takes six "
            "rounds or more."
        )
    if min(runtimes_ms, default=wanted_runtime_ms) < wanted_runtime_ms:
        warnings.append(
            f"Jobs were shortened from {wanted_runtime_ms} ms to {min(runtimes_ms)} ms to end in "
            "time."
        )
    if max(runtimes_ms, default=SHORT_RUNTIME_MS) < SHORT_RUNTIME_MS:
        warnings.append(
            f"Each job ran for {max(runtimes_ms) / 1000:g} s at most: rare stalls, such as "
            "compactions, may be missing."
        )
    if any(one.cpu_us_per_operation is None for one in run.results):
        warnings.append("The CPU time of some arms could not be read.")
    if busy_cores_before is not None and busy_cores_before > BUSY_MACHINE_SHARE * cores:
        warnings.append(
            f"The machine was busy before the run: {busy_cores_before:.1f} of {cores} cores."
        )
    return warnings
