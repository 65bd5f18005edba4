"""A machine whose noise is known: seconds, visits of arms, rounds and series. Seeded."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grampus.bench.statistics.arm_order import decide_arm_orders

ARM, BASELINE = "arm", "baseline"
LEVEL = 1000.0  # transactions a second


@dataclass(frozen=True)
class Noise:
    """How a machine is noisy. Shares are standard deviations on the log scale or of the level."""

    name: str
    second: float  # of one second
    correlation: float  # of one second with the next (AR(1))
    drift: float  # of the machine's level, from one visit to the next (a random walk)
    visit: float  # of one visit, which nothing shares
    stall_chance: float = 0.0  # of a stall beginning in a second
    stall_s: int = 2
    stall_left: float = 0.1  # of the throughput, during a stall
    outlier_chance: float = 0.0  # of a visit that loses 10 to 70%
    arm_factor: float = 1.0  # how much noisier the arm is than the baseline
    visit_s: int = 20
    environment: float = 0.0  # of what an arm stands on: OSDs, pools, data
    is_kept: bool = True  # whether that is made once, or anew for each round


NOISES = (
    Noise("quiet", second=0.04, correlation=0.3, drift=0.005, visit=0.005),
    Noise("shared", second=0.10, correlation=0.6, drift=0.01, visit=0.01),
    Noise("shared, 60 s", second=0.10, correlation=0.6, drift=0.01, visit=0.01, visit_s=60),
    Noise("noisy", second=0.20, correlation=0.8, drift=0.02, visit=0.03),
    Noise("stalls", second=0.10, correlation=0.6, drift=0.01, visit=0.01, stall_chance=0.01),
    Noise("outliers", second=0.10, correlation=0.6, drift=0.01, visit=0.01, outlier_chance=0.05),
    Noise("uneven arms", second=0.10, correlation=0.6, drift=0.01, visit=0.01, arm_factor=3.0),
    Noise("drifting", second=0.10, correlation=0.6, drift=0.05, visit=0.01),
)


# By how much what two alike arms stand on differs, as a standard deviation.
ENVIRONMENTS = (0.03, 0.05, 0.10)


def simulate_seconds(
    source: random.Random, noise: Noise, seconds: int, *, level: float = LEVEL, factor: float = 1.0
) -> list[float]:
    """Throughput of each second at a constant level; `factor` multiplies what is noise."""
    gauss = source.gauss
    correlation, fresh = noise.correlation, math.sqrt(1 - noise.correlation**2)
    share = noise.second * factor
    state = gauss(0, 1)
    found = []
    stalled_s = 0
    for _ in range(seconds):
        value = level * max(0.0, 1 + share * state)
        state = correlation * state + fresh * gauss(0, 1)
        if noise.stall_chance:
            if not stalled_s and source.random() < noise.stall_chance:
                stalled_s = noise.stall_s
            if stalled_s:
                stalled_s -= 1
                value *= noise.stall_left
        found.append(value)
    return found


def simulate_rounds(
    seed: int, noise: Noise, *, rounds: int, ratio: float
) -> list[tuple[float, float]]:
    """The (arm, baseline) mean throughputs of each round, measured in the order of the plan."""
    source = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    drift = 0.0
    pairs = []
    offsets = dict.fromkeys((ARM, BASELINE), 0.0)
    for number, order in enumerate(decide_arm_orders((ARM, BASELINE), rounds=rounds, seed=seed)):
        figures = {}
        if noise.environment and (number == 0 or not noise.is_kept):
            offsets = {arm: source.gauss(0, noise.environment) for arm in offsets}
        for arm in order:
            drift += source.gauss(0, noise.drift)
            factor = noise.arm_factor if arm == ARM else 1.0
            log_level = drift + offsets[arm] + source.gauss(0, noise.visit * factor)
            if noise.outlier_chance and source.random() < noise.outlier_chance:
                log_level += math.log(source.uniform(0.3, 0.9))
            level = LEVEL * math.exp(log_level) * (ratio if arm == ARM else 1.0)
            seconds = simulate_seconds(source, noise, noise.visit_s, level=level, factor=factor)
            figures[arm] = math.fsum(seconds) / noise.visit_s
        pairs.append((figures[ARM], figures[BASELINE]))
    return pairs


@dataclass(frozen=True)
class SeriesKind:
    """Series of one figure a second: noise, and a shape that multiplies the level of a second.

    `make_shape` draws a shape.
    """

    name: str
    noise: Noise
    make_shape: Callable[[random.Random], Callable[[int], float]]


def _constant(_: random.Random) -> Callable[[int], float]:
    return lambda _second: 1.0


def _warm_up(seconds: float) -> Callable[[random.Random], Callable[[int], float]]:
    """From 40% up; after three times `seconds` 3% are missing."""
    return lambda _: lambda second: 1 - 0.6 * math.exp(-second / seconds)


def _trend(share_a_minute: float) -> Callable[[random.Random], Callable[[int], float]]:
    return lambda _: lambda second: max(0.05, 1 + share_a_minute * second / 60)


def _regimes(height: float, mean_s: float) -> Callable[[random.Random], Callable[[int], float]]:
    """Two levels, each for a time drawn from an exponential distribution."""

    def make(source: random.Random) -> Callable[[int], float]:
        ends = [0.0]
        while ends[-1] < 1000:
            ends.append(ends[-1] + source.expovariate(1 / mean_s))
        return lambda second: 1.0 if sum(end <= second for end in ends) % 2 else 1 - height

    return make


def _stalls(every_s: float, length_s: int) -> Callable[[random.Random], Callable[[int], float]]:
    """Checkpoints: nearly nothing for `length_s`, every so many seconds give or take a tenth."""

    def make(source: random.Random) -> Callable[[int], float]:
        begins = [source.uniform(0, every_s)]
        while begins[-1] < 1000:
            begins.append(begins[-1] + every_s * source.uniform(0.9, 1.1))
        return lambda second: (
            0.05 if any(begin <= second < begin + length_s for begin in begins) else 1.0
        )

    return make


_BY_NAME = {noise.name: noise for noise in NOISES}
_QUIET, _SHARED, _NOISY = (_BY_NAME[name] for name in ("quiet", "shared", "noisy"))
SERIES: Sequence[SeriesKind] = (
    SeriesKind("steady, quiet", _QUIET, _constant),
    SeriesKind("steady, shared", _SHARED, _constant),
    SeriesKind("steady, noisy", _NOISY, _constant),
    SeriesKind("a stall of 1 s every 15 s, shared", _SHARED, _stalls(15, 1)),
    SeriesKind("warm-up of about 30 s, shared", _SHARED, _warm_up(10)),
    SeriesKind("warm-up of about 90 s, shared", _SHARED, _warm_up(30)),
    SeriesKind("falls by 5% a minute, quiet", _QUIET, _trend(-0.05)),
    SeriesKind("falls by 5% a minute, shared", _SHARED, _trend(-0.05)),
    SeriesKind("falls by 10% a minute, shared", _SHARED, _trend(-0.10)),
    SeriesKind("falls by 10% a minute, noisy", _NOISY, _trend(-0.10)),
    SeriesKind("rises by 10% a minute, shared", _SHARED, _trend(0.10)),
    SeriesKind("25% lower and back, 100 s each, quiet", _QUIET, _regimes(0.25, 100)),
    SeriesKind("25% lower and back, 100 s each, shared", _SHARED, _regimes(0.25, 100)),
    SeriesKind("a stall of 20 s every 120 s, shared", _SHARED, _stalls(120, 20)),
    SeriesKind("warm-up of 15 minutes, shared", _SHARED, _warm_up(300)),
)


@dataclass(frozen=True)
class Series:
    """What was measured, and what it would be without noise, for each second."""

    values: Sequence[float]
    truth: Sequence[float]


def simulate_series(seed: int, kind: SeriesKind, seconds: int) -> Series:
    """A series of that kind, so many seconds long."""
    source = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    shape = kind.make_shape(source)
    truth = [shape(second) for second in range(seconds)]
    values = simulate_seconds(source, kind.noise, seconds)
    return Series([value * share for value, share in zip(values, truth, strict=True)], truth)
