"""Bottlenecks of made trials."""

from __future__ import annotations

from typing import Any

from grampus.bench.layers.use import PARTS
from grampus.state.matrix_layers import BottleneckWord, Confidence, Layer, LayerTime, LayerUse, Why

# Where the seconds of made figures begin.
BEGAN_AT_S = 1_772_373_909.0


def made_why(bottleneck: BottleneckWord = "osd-device", busy: float = 0.95, **changed: Any) -> Why:
    """Two seconds of warm-up and six of measuring, with a device that is busy in these."""
    warm_up = PARTS // 4
    content: dict[str, Any] = {
        "bottleneck": bottleneck,
        "evidence": (f"The device of osd-0@h1 was busy {100 * busy:.0f} % of the time.", "So."),
        "layers": (
            LayerUse(layer="client", share=0.1, peak=0.2, over_time=(0.1,) * PARTS),
            LayerUse(
                layer="osd-device",
                share=busy,
                peak=1.0,
                over_time=(None,) * warm_up + (busy,) * (PARTS - warm_up),
            ),
        ),
        "from_s": BEGAN_AT_S - 2,
        "measured_from_s": BEGAN_AT_S,
        "to_s": BEGAN_AT_S + 6,
        "throughput": (None,) * 3 + (100.0,) * (PARTS - 3),
        "monitor_cpu_cores": 0.02,
        **changed,
    }
    return Why(**content)


def made_timed_why(
    bottleneck: Layer = "osd-device",
    share: float = 0.7,
    next_layer: Layer = "volume",
    next_share: float = 0.2,
    confidence: Confidence = "high",
) -> Why:
    """As `made_why`, with the times of two layers of an operation of 20 ms."""
    times = tuple(
        LayerTime(layer=layer, share=part, queued_share=part / 2, ms=20 * part)
        for layer, part in ((bottleneck, share), (next_layer, next_share))
    )
    return made_why(bottleneck, confidence=confidence, times=times)
