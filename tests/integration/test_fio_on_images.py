"""fio's rbd engine and rbd bench on the same images of a real lab (ADR 26)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.command_line import CommandLine

SUITE = """
name: my-images
kind: matrix
title: Two drivers on the same images
question: Do both load an image?
dimensions: {workload: [fio-rbd-mix-70-30, fio-rbd-randread, rbd-randread]}
fixed: {threads: 4, clients: 2, media: own, wal_db_device: own, objectstore: own}
dataset: {block_bytes: 16K}
arms: {fio: {workload: fio-rbd-randread}, bench: {workload: rbd-randread}}
baseline: bench
conclusions:
  - {name: alike, says: Both are alike., test: ratio, quantity: iops, arm: fio, at_least: 0.5}
scales:
  tiny: {warmup_s: 1, measure_s: 12, rounds: 1, dataset_bytes: 64M, environment_s: 30}
  small: {warmup_s: 15, measure_s: 60, rounds: 5, dataset_bytes: 1G, environment_s: 240}
  full: {warmup_s: 60, measure_s: 300, rounds: 6, dataset_bytes: 10G, environment_s: 600}
"""


# Beside other work one of two clients may begin so late that a cell leaves its latencies out.
@pytest.mark.alone
def test_fio_opens_an_image_and_tells_its_latencies(lab: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "my-images.yaml"
    file.write_text(SUITE)
    volumes = lab.json("volume", "list")
    document = lab.json("bench", "run", str(file))
    assert [visit.get("marked") for visit in document["visits"]] == [None] * 3
    cells = {cell["point"]["workload"]: cell for cell in document["cells"]}
    assert sorted(cells) == ["fio-rbd-mix-70-30", "fio-rbd-randread", "rbd-randread"]
    for name, cell in cells.items():
        assert cell["operations_per_s"]["mean"] > 0, name
        # rbd bench counts, and times nothing; where its clients were not at work together, the cell
        # has no latencies at all.
        latency = cell["latency"] or {"average_us": None}
        assert (latency["average_us"] is None) == (name == "rbd-randread"), name
    # Nothing of it is left.
    assert lab.json("volume", "list") == volumes
