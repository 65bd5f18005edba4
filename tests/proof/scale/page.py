"""The page docs/proof/scale.md: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

MOST_RATIO = 1.2
LIST_WITHIN_S = 2.0
SERVE_WITHIN = 0.05
LIST = "db list"


def ratios(samples: Sequence[Mapping[str, Any]], key: str) -> dict[str, float]:
    """Many over few by command: the median over the pairs of a round."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for sample in samples:
        rounds = found.setdefault(sample["command"], {})
        rounds.setdefault(sample["round"], {})[sample["arm"]] = sample[key]
    return {
        command: median(pair["many"] / pair["few"] for pair in rounds.values())
        for command, rounds in found.items()
    }


def failures(document: Mapping[str, Any]) -> list[str]:
    """Which targets are missed. The list is held to its time, not to a ratio."""
    samples = document["samples"]
    missed = [
        f"{command}: {ratio:.2f} times the CPU time"
        for command, ratio in ratios(samples, "cpu_s").items()
        if command != LIST and ratio > MOST_RATIO
    ]
    listed = [s["wall_s"] for s in samples if (s["command"], s["arm"]) == (LIST, "many")]
    if listed and median(listed) > LIST_WITHIN_S:
        missed.append(f"{LIST}: {median(listed):.2f} s")
    serve = document["serve"]
    if serve["cpu_s"] / serve["wall_s"] > SERVE_WITHIN:
        missed.append(f"serve: {100 * serve['cpu_s'] / serve['wall_s']:.1f} % of a core")
    return missed


def render_page(document: Mapping[str, Any]) -> str:
    """The page, whatever was found."""
    samples, serve = document["samples"], document["serve"]
    missed = failures(document)
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    commands = list(dict.fromkeys(sample["command"] for sample in samples))
    by_cpu, by_wall = ratios(samples, "cpu_s"), ratios(samples, "wall_s")
    rows = []
    for command in commands:
        of_it = [sample for sample in samples if sample["command"] == command]
        cells = [
            f"{median(s[key] for s in of_it if s['arm'] == arm):.2f}"
            for key in ("cpu_s", "wall_s")
            for arm in ("few", "many")
        ]
        few_cpu, many_cpu, few_wall, many_wall = cells
        rows.append(
            f"| `{command}` | {few_cpu} | {many_cpu} | {by_cpu[command]:.2f} | {few_wall} "
            f"| {many_wall} | {by_wall[command]:.2f} |"
        )
    table = "\n".join(rows)
    share = 100 * serve["cpu_s"] / serve["wall_s"]
    verdict = "All targets are met." if not missed else f"Missed: {'; '.join(missed)}."
    return f"""# A thousand databases

Does a command about one database take longer when the state has many others, and what does an \
idle `grampus serve` take?

{document["at"]}; {versions}. `make scale` measures it again. Raw data: [scale.json](scale.json).

**{verdict}** The targets: a command about one database takes at most {MOST_RATIO} times the CPU \
time that it takes with ten, `db list` at most {LIST_WITHIN_S:g} s, `serve` less than \
{100 * SERVE_WITHIN:g} % of a core.

## What is real here, and what is not

- A lab with a real cluster, and **two databases with running servers**. All commands are about \
them, or about one real volume without a database.
- The others are records in the state: {document["few"]} databases in all against \
{document["many"]}, with {document["few_operations"]:,} and {document["many_operations"]:,} \
operations in the journal. Their servers do not run, and **they have no images**: a machine of \
this size cannot run a thousand servers. What a thousand running servers, volumes and hosts cost \
is not measured here.
- Unit tests count what a command takes of the state, of hosts and of the cluster, and hold it to \
be the same with many databases (`tests/unit/databases/test_scale.py`, \
`tests/unit/volumes/test_scale.py`, `tests/unit/databases/rebuild/test_noting_scale.py`). Others \
hold that `serve` looks at attached volumes, and at binary logs that did not change, by one \
command for each host (`tests/unit/volumes/test_states.py`, \
`tests/unit/databases/backup/test_quiet_logs.py`).

## Commands

Seconds, medians of {document["rounds"]} rounds; each round has both states one after the other. \
Each command is the program itself, with its start. CPU time is that of the program and of all \
processes that it waits for; servers and the cluster are not in it. The ratio is the median over \
rounds. Wall time also depends on what else the machine does.

| command | CPU, {document["few"]} | CPU, {document["many"]} | ratio | wall, {document["few"]} \
| wall, {document["many"]} | ratio |
| --- | --- | --- | --- | --- | --- | --- |
{table}

## An idle controller

`grampus serve` with {document["many"]} databases, two of them running: {serve["cpu_s"]:.1f} s of \
CPU in {serve["wall_s"]:.0f} s, its start included, which is {share:.1f} % of a core.
"""
