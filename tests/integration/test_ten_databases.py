"""Ten databases of a real lab under load at once, two clients each (ADR 26)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.command_line import CommandLine

# The largest cell of `suites/labs/many-databases.yaml` and its smallest, which stand on the same.
SUITE = """
name: my-ten
kind: matrix
title: Ten at once
question: Do ten databases run at once?
dimensions: {databases: [1, 10]}
fixed: {workload: update-index, clients: 2, threads: 2, buffer_ratio: 4, media: own,
  wal_db_device: own}
conclusions:
  - {name: less, says: Each gets less., test: trend, quantity: tps-per-database, along: databases,
     direction: falls, tolerance: 0.2}
scales:
  tiny: {warmup_s: 1, measure_s: 12, rounds: 1, dataset_bytes: 32M, environment_s: 220}
  small: {warmup_s: 15, measure_s: 60, rounds: 5, dataset_bytes: 1G, environment_s: 600}
  full: {warmup_s: 60, measure_s: 300, rounds: 6, dataset_bytes: 10G, environment_s: 3600}
"""


@pytest.mark.exhaustive  # ten databases are made and loaded
def test_ten_databases_are_loaded_at_once(lab: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "my-ten.yaml"
    file.write_text(SUITE)
    databases = lab.json("db", "list")
    run = lab.ok("bench", "run", str(file), "--format", "json", timeout_s=900)
    document = run.document
    cells = {cell["cell_id"]: cell["point"]["databases"] for cell in document["cells"]}
    assert [visit.get("marked") for visit in document["visits"]] == [None, None]
    for visit in document["visits"]:
        count = cells[visit["cell_id"]]
        raw = Path(document["dir"]) / "raw" / visit["cell_id"] / "1"
        assert len(list(raw.glob("measuring.*.txt"))) == 2 * count
        # Each server was asked what it ran with.
        assert len(list(raw.glob("variables.*.txt"))) == count
        figures = visit["figures"]
        # All were at work together for most of the time.
        assert figures["measured_s"] >= 8, figures["notes"]
        assert figures["operations_per_s"] > 0
    assert lab.json("db", "list") == databases
