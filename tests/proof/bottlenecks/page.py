"""The page docs/proof/bottlenecks.md: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grampus.cli.markdown import table
from grampus.state.matrix_layers import LAYER_WORDS
from tests.proof.bottlenecks.judging import (
    CONFIDENCES,
    FORCE_SHARE,
    TARGET_SHARE,
    TARGET_TRIALS,
    Judged,
    failures,
    rate_of,
)

_QUESTION = """Does Grampus name the layer that limits a load? `make bottlenecks` makes one layer \
slow from outside, without telling Grampus, and runs the suite `injected-bottlenecks` on it: point \
selects, index updates, and random writes of a volume, each with the write paths `direct` \
and `journal`."""
_HOW_TO_READ = f"""\
- A layer is slow only while the load generator runs, warm-up included.
- A trial counts if the injection takes at least {100 * FORCE_SHARE:.0f} % of the throughput: only \
then is the injected layer the bottleneck. A slow server does not limit a load without a server.
- All hosts of the lab share one machine. A trial lasts eight seconds, once for each injection.
- The confidence is that of Grampus before anything is known of the injection."""
_UNINJECTED = """No layer is known to be the bottleneck here. The cores of the machine are all at \
work, and Grampus names the layer that uses most of them."""


def render_page(document: Mapping[str, Any]) -> str:
    """The page, whatever was found."""
    judged: Sequence[Judged] = document["judged"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    missed = failures(judged)
    verdict = f"{rate_of(judged)} bottlenecks were named correctly."
    said = " ".join(["All targets are met." if not missed else "Missed:", *missed])
    layers = list(document["injections"])
    by_layer = [
        [
            LAYER_WORDS[layer],
            document["injections"][layer],
            str(rate_of([one for one in judged if one.injected == layer])),
        ]
        for layer in layers
    ]
    by_confidence = [
        [grade, str(rate_of([one for one in judged if one.confidence == grade]))]
        for grade in CONFIDENCES
    ]
    return (
        "\n\n".join(
            [
                "# Injected bottlenecks",
                _QUESTION,
                f"{document['at']}; {versions}. Raw data: [bottlenecks.json](bottlenecks.json).",
                f"**{verdict} {said}** The target: {100 * TARGET_SHARE:.0f} % of at least "
                f"{TARGET_TRIALS}.",
                "## How to read it",
                _HOW_TO_READ,
                "## By layer",
                table(["layer", "injection", "correct"], by_layer),
                "## By confidence",
                table(["confidence", "correct"], by_confidence),
                "## Trials",
                table(
                    ["injected", "load", "throughput", "named", "confidence", "share of the time"],
                    [_row(one) for one in judged],
                ),
                "## Without injection",
                _UNINJECTED,
                table(
                    ["load", "named", "confidence", "share of the time"],
                    [[one.cell, *_named(one)] for one in document["uninjected"]],
                ),
            ]
        )
        + "\n"
    )


def _row(one: Judged) -> list[str]:
    part = "-" if one.of_uninjected is None else f"{100 * one.of_uninjected:.0f}%"
    right = "" if one.is_right or not one.counts else " (wrong)"
    does_not_count = "" if one.counts else " (does not count)"
    named, confidence, share = _named(one)
    return [
        LAYER_WORDS[one.injected],
        one.cell,
        f"{part}{does_not_count}",
        f"{named}{right}",
        confidence,
        share,
    ]


def _named(one: Judged) -> list[str]:
    share = "-" if one.share is None else f"{100 * one.share:.0f}%"
    return [LAYER_WORDS[one.named], one.confidence or "-", share]
