"""The guide names every metric as it is, so that series can be read without the code."""

from __future__ import annotations

from pathlib import Path

from grampus.state.matrix_layers import LAYER_WORDS, LAYERS, METRICS

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "bottlenecks.md"


def test_every_metric_is_in_the_guide():
    rows = [
        (f"`{kind}`" if at == 0 else "", f"`{name}`", meaning)
        for kind, metrics in METRICS.items()
        for at, (name, meaning) in enumerate(metrics.items())
    ]
    text = GUIDE.read_text()
    table = text[text.index("| kind | metric |") :].splitlines()[2 : 2 + len(rows)]
    assert table == [f"| {' | '.join(row)} |" for row in rows]


def test_every_bottleneck_is_in_the_guide():
    assert set(LAYER_WORDS) == {*LAYERS, "none", "unknown"}
    text = GUIDE.read_text()
    assert all(f"| {word} |" in text for word in LAYER_WORDS.values())
