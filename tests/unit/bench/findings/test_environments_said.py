"""What a run says of the environments that its cells stood on."""

from __future__ import annotations

import pytest

from grampus.bench.findings.documents import describe_environments
from grampus.state.matrix_runs import Environments
from tests.unit.bench.findings.made_matrix import made_figures, made_matrix_run, made_text


@pytest.mark.parametrize(
    ("dimensions", "environments", "not_runnable", "said"),
    [
        ({"media": ["hdd", "nvme"], "threads": [1, 8]}, "kept", {}, "do not include that"),
        ({"media": ["hdd", "nvme"], "threads": [1, 8]}, "each-round", {}, "include the difference"),
        # Settings are changed under cells that share all else.
        ({"profile": ["defaults", "redhat-2016"], "threads": [1, 8]}, "kept", {}, None),
        # All cells share one: nothing differs but the load.
        ({"media": ["hdd"], "threads": [1, 8]}, "kept", {}, None),
        (
            {"media": ["hdd", "nvme"], "threads": [1, 8]},
            "kept",
            {f"update-index{threads}, media hdd": "No disks." for threads in ("", ", threads 1")},
            None,
        ),
    ],
)
def test_whether_intervals_count_the_difference_of_environments(
    dimensions: dict[str, list[object]],
    environments: Environments,
    not_runnable: dict[str, str],
    said: str | None,
) -> None:
    conclusions = [
        {"name": "x", "says": "x", "test": "trend", "quantity": "tps", "along": "threads"}
        | {"direction": "rises", "tolerance": 0.1}
    ]
    text = made_text(dimensions=dimensions, arms=None, baseline=None, conclusions=conclusions)
    _, run, _ = made_matrix_run(
        lambda _cell, _number: made_figures(100.0),
        text=text,
        environments=environments,
        not_runnable=not_runnable,
    )
    found = describe_environments(run)
    assert (found is None) if said is None else (found is not None and said in found)
