"""A small suite that tests change."""

from __future__ import annotations

from typing import Any

import yaml

from grampus.bench.matrix.loading import parse_matrix_suite
from grampus.bench.matrix.suite import MatrixSuite

MADE = """
name: made-layers
kind: matrix
title: A made suite
question: Does it expand?
dimensions:
  media: [hdd, nvme]
  threads: [1, 8]
fixed: {workload: update-index}
arms:
  hdd: {media: hdd}
  nvme: {media: nvme}
baseline: hdd
conclusions:
  - {name: faster, says: Flash is faster., test: ratio, quantity: tps, arm: nvme, at_least: 2}
  - {name: grows, says: It grows., test: trend, quantity: tps, along: threads,
     direction: rises, tolerance: 0.1}
scales:
  tiny: {warmup_s: 2, measure_s: 6, rounds: 3, dataset_bytes: 64M, environment_s: 30}
  small: {warmup_s: 2, measure_s: 6, rounds: 3, dataset_bytes: 64M, environment_s: 30}
  full: {warmup_s: 300, measure_s: 300, rounds: 5, dataset_bytes: 1G, environment_s: 600}
"""


def made_content(**changed: Any) -> dict[str, Any]:
    """The suite's content with some top-level keys replaced, or left out where None."""
    content = {**yaml.safe_load(MADE), **changed}
    return {key: value for key, value in content.items() if value is not None}


def made_suite(**changed: Any) -> MatrixSuite:
    """The suite with `changed` top-level keys, as it is read from a file."""
    return parse_matrix_suite(
        yaml.safe_dump(made_content(**changed), sort_keys=False), source="made.yaml"
    )
