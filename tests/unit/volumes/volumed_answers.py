"""What a volumed in good health answers to `status` and `statistics`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

KIND = {"operations": 3, "bytes": 12288, "errors": 0, "in_flight": 1}
IDLE = {"operations": 0, "bytes": 0, "errors": 0, "in_flight": 0}
STATISTICS = {
    "since_s": 1.0,
    "kinds": {
        "read": {**KIND, "latency_us": {"count": 3, "p50": 100.0, "p99": 900.0}},
        "flush": {**IDLE, "latency_us": {"count": 0}},
    },
    "journal": {"changes": 40, "batches": 4, "append_bytes": 4096, "appends": 3, "applies": 5},
}


def journal_status(frames: int, mode: str) -> dict[str, object]:
    return {
        "state": "running",
        "epoch": 1,
        "fill_ratio": 0.25,
        "held_bytes": frames * 4096,
        "used_bytes": frames * 4096,
        "capacity_bytes": 1 << 28,
        "lag_bytes": 0,
        "lag_ms": 0.5,
        "freed_bytes_per_s": 0,
        "retrying": None,
        "sealed": frames,
        "replicated": frames,
        "applied": 0,
        "trimmed": 0,
        "mode": mode,
        "degraded": None,
        "local_used_bytes": 8192 if mode == "cache" else 0,
        "local_capacity_bytes": 1 << 28 if mode == "cache" else 0,
        "max_lag_ms": 100.0 if mode == "cache" else None,
        "local_asides": [],
    }


def volumed_status(facts: dict[str, object], transport: str, frames: int) -> dict[str, object]:
    """What `volumed ctl status` prints of a client with these facts and a journal of `frames`."""
    write_path = str(facts["write_path"])
    return {
        **facts,
        "state_reason": None,
        "lock_owner": True,
        "transport": {"name": transport, "reason": "the kernel has it"},
        "in_flight": 2,
        "oldest_in_flight_ms": 1.5,
        "journal": journal_status(frames, write_path) if write_path != "direct" else None,
        "a later version says more": {},
    }


def answer_states(
    daemons: Iterable[Any], ask: Callable[[list[str]], tuple[int, str]]
) -> tuple[int, str]:
    """What the program prints that asks all volumeds of a host for their status."""
    answers = {}
    for socket in [str(daemon.socket) for daemon in daemons if daemon.socket]:
        code, said = ask(["ctl", "--socket", socket, "status"])
        answers |= {socket: json.loads(said)} if code == 0 else {}
    return 0, json.dumps(answers)
