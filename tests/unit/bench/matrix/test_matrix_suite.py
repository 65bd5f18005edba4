"""Suite files are read strictly, and wrong ones are explained in words a user understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grampus.bench.matrix.loading import load_matrix_suites, parse_matrix_suite
from grampus.core.errors import UsageError
from tests.unit.bench.matrix.made_suites import MADE, made_content, made_suite

RATIO = {
    "name": "faster",
    "says": "Flash is faster.",
    "test": "ratio",
    "quantity": "tps",
    "arm": "nvme",
    "at_least": 2,
}
TREND = {
    "name": "grows",
    "says": "It grows.",
    "test": "trend",
    "quantity": "tps",
    "along": "threads",
    "direction": "rises",
    "tolerance": 0.1,
}
SCALE = {
    "warmup_s": 2,
    "measure_s": 6,
    "rounds": 3,
    "dataset_bytes": "64M",
    "environment_s": 30,
}
HDD_ONLY = {"only": {"media": ["hdd"]}}


def _scales(**tiny: Any) -> dict[str, Any]:
    return {"tiny": {**SCALE, **tiny}, "small": SCALE, "full": SCALE}


def test_a_suite_is_read_as_it_is_written() -> None:
    suite = made_suite()
    assert suite.dimensions == {"media": ("hdd", "nvme"), "threads": (1, 8)}
    assert suite.scales["tiny"].dataset_bytes == 64 * 1024**2
    assert suite.source is None


@pytest.mark.parametrize(
    ("changed", "problem", "remedy"),
    [
        # Dimensions and their values.
        (
            {"dimensions": {"medium": ["hdd"]}},
            "In made.yaml (dimensions), there is no dimension 'medium'.",
            "Did you mean 'media'?",
        ),
        ({"dimensions": {"qqq": [1]}}, "no dimension 'qqq'", "The dimensions are workload, "),
        (
            {"dimensions": {"media": ["hdd", "floppy"]}},
            "'floppy' is not a value of the dimension media.",
            "It takes nvme, ssd, hdd or own.",
        ),
        (
            {"dimensions": {"media": ["hhd"], "threads": [1, 8]}},
            "'hhd' is not a value",
            "Did you mean 'hdd'?",
        ),
        ({"dimensions": {"media": "hdd"}}, "media has no list of values", "under fixed"),
        ({"dimensions": {"media": []}}, "media has no list of values", "[VALUE, ...]"),
        ({"dimensions": {"media": ["hdd", "hdd"]}}, "media has the value hdd twice", "Leave"),
        ({"dimensions": {}}, "dimensions", "Correct it."),
        ({"dimensions": ["media"]}, "dimensions", "Correct it."),
        ({"fixed": {"workload": "update"}}, "(fixed), 'update' is not a value", "update-index"),
        ({"fixed": {"workload": "update-index", "media": "hdd"}}, "both a dimension and", "Leave"),
        ({"fixed": {"copies": 2}}, "no workload is named", "Add it"),
        (
            {
                "dimensions": {"media": ["hdd", "nvme"], "threads": [1, 8], "trx_commit": [0, 1]},
                "fixed": {"workload": "rados-write"},
                "conclusions": [{**RATIO, "quantity": "mb-per-s"}],
            },
            "none of its workloads feels the dimension trx_commit",
            "Leave it out",
        ),
        # Names.
        ({"source": "redhat-2016"}, "source and experiment do not stand together", "Name both"),
        (
            {"source": "redhat-2016", "experiment": "batch-flushing"},
            "the name 'made-layers' is not that of its source",
            "Call it redhat-2016-batch-flushing.",
        ),
        ({"versions": {"cephh": "16"}}, "versions.cephh", "Correct it."),
        ({"versions": {"ceph": "latest"}}, "'versions.ceph' is not valid (given: 'latest')", "Cor"),
        ({"dataset": {"table": 4}}, "unknown key 'dataset.table'", "Did you mean 'tables'?"),
        ({"title": None}, "lacks the key 'title'", "Add it."),
        # Arms.
        ({"baseline": "ssd"}, "the baseline is ssd, which is not an arm", "one of hdd, nvme"),
        ({"baseline": None}, "the baseline is not named", "one of hdd, nvme"),
        (
            {"arms": {"hdd": {"media": "hdd"}, "nvme": {"threads": 8}}},
            "the arms do not set the same dimensions",
            "Give each arm a value",
        ),
        (
            {"arms": {"hdd": {"media": "hdd"}, "nvme": {"media": "hdd"}}},
            "the arm hdd is the same as another one",
            "Leave one out.",
        ),
        (
            {"arms": {"hdd": {"media": "hdd"}, "nvme": {"media": "ssd"}}},
            "the arm nvme names ssd of media, which the suite does not have",
            "It has hdd, nvme.",
        ),
        (
            {"arms": {"hdd": {"copies": 2}, "nvme": {"copies": 3}}},
            "the arm hdd names copies, which is not a dimension of the suite",
            "The suite varies media, threads.",
        ),
        # Exclusions.
        (
            {"exclusions": [{"when": {"media": ["ssd"]}, "because": "x"}]},
            "an exclusion names ssd of media",
            "It has hdd, nvme.",
        ),
        (
            {"exclusions": [{"when": {"media": ["hdd", "nvme"]}, "because": "x"}]},
            "the scale tiny has no cell left",
            "Exclude less",
        ),
        ({"exclusions": [{"when": {}, "because": "x"}]}, "exclusions.0.when", "Correct it."),
        # Scales.
        ({"scales": {"tiny": SCALE, "small": SCALE}}, "there is no scale full", "Add it"),
        ({"scales": {**_scales(), "huge": SCALE}}, "scales.huge", "Correct it."),
        ({"scales": _scales(round=3)}, "unknown key 'scales.tiny.round'", "'rounds'"),
        ({"scales": _scales(dataset_bytes="much")}, "'scales.tiny.dataset_bytes'", "Correct it."),
        (
            {"scales": _scales(first_look=3)},
            "a scale of 3 rounds has its first look after 3.",
            "Look before the last round",
        ),
        ({"scales": _scales(measure_s=0)}, "'scales.tiny.measure_s'", "Correct it."),
        (
            {"scales": _scales(only={"media": ["ssd"]})},
            "the scale tiny names ssd of media",
            "It has hdd, nvme.",
        ),
        (
            {"scales": _scales(fixed={"media": "hdd"})},
            "the scale tiny fixes media, which is a dimension",
            "`only: {media: [VALUE]}`",
        ),
        (
            {"scales": _scales(only={"media": ["hdd"], "threads": [8]})},
            "the conclusion faster compares nothing at the scale tiny",
            "Give that scale the cells",
        ),
        (
            {"scales": {**_scales(), "full": {**SCALE, **HDD_ONLY}}},
            "the conclusion faster compares nothing at the scale full",
            "Give that scale the cells",
        ),
        (
            {"fixed": {"workload": "update-index", "buffer_ratio": 15}},
            "at the scale tiny, a buffer_ratio of 15 makes a buffer pool of 4.3 MiB",
            "It takes 5 MiB at least",
        ),
        *(
            (
                {"fixed": {"workload": "update-index", "osd_hosts": 2, **pool}},
                f"uses 2 of the hosts with OSDs (osd_hosts) and needs {needed}",
                "Raise osd_hosts",
            )
            for pool, needed in (({}, 3), ({"copies": 2, "erasure_code": "k4m2"}, 6))
        ),
        # Conclusions.
        ({"conclusions": []}, "'conclusions'", "Correct it."),
        ({"conclusions": [RATIO, {**TREND, "name": "faster"}]}, "faster is there twice", "another"),
        ({"conclusions": [{**RATIO, "test": "guess"}]}, "'conclusions.0'", "Correct it."),
        ({"conclusions": [{**RATIO, "quantity": "speed"}]}, "'conclusions.0.quantity'", "Correct"),
        ({"conclusions": [{**RATIO, "atleast": 2}]}, "key 'conclusions.0.atleast'", "'at_least'"),
        ({"conclusions": [{**RATIO, "at_least": None}]}, "'faster' has no limit", "Add at_least"),
        ({"conclusions": [{**RATIO, "at_most": 1}]}, "can never hold", "Exchange them."),
        (
            {"conclusions": [{**RATIO, "repeats": "faster"}]},
            "repeats faster, and the suite has no separate conclusion of that name",
            "none",
        ),
        (
            {"conclusions": [RATIO, {**TREND, "repeats": "slower"}]},
            "repeats slower",
            "ones are faster.",
        ),
        ({"conclusions": [{**RATIO, "arm": "tape"}]}, "names the arm tape", "hdd, nvme"),
        ({"conclusions": [{**RATIO, "arm": "hdd"}]}, "compares hdd with itself", "another arm"),
        (
            {"conclusions": [{**RATIO, "against": "nvme"}]},
            "compares nvme with itself",
            "another arm",
        ),
        (
            {"conclusions": [{**RATIO, "at": {"threads": 2}}]},
            "the conclusion faster names 2 of threads",
            "It has 1, 8.",
        ),
        (
            {"conclusions": [{**TREND, "along": "copies"}]},
            "goes along copies, which the suite does not vary",
            "It varies media, threads.",
        ),
        ({"conclusions": [{**TREND, "along": "thread"}]}, "no dimension 'thread'", "'threads'"),
        (
            {
                "conclusions": [
                    {
                        "name": "knee",
                        "says": "x",
                        "test": "knee",
                        "quantity": "tps",
                        "along": "threads",
                        "gain_below": 0.1,
                        "expected": [4],
                    }
                ]
            },
            "the conclusion knee names 4 of threads",
            "It has 1, 8.",
        ),
        (
            {
                "conclusions": [
                    {
                        "name": "best",
                        "says": "x",
                        "test": "best",
                        "quantity": "tps",
                        "along": "threads",
                        "better": "most",
                        "expected": ["many"],
                    }
                ]
            },
            "'many' is not a value of the dimension threads",
            "a whole number",
        ),
        (
            {"fixed": {"workload": "fio-randwrite"}},
            "the conclusion faster asks for tps where there is no database",
            "Ask for iops",
        ),
        *(
            (
                {"fixed": {"workload": workload, "rate": 50}},
                f"the workload {workload} has a rate, and its load generator knows none",
                "Leave rate out",
            )
            for workload in ("fio-randwrite", "rados-write", "rbd-read")
        ),
        (
            {
                "dimensions": {"media": ["hdd", "nvme"], "rate": ["none", 50]},
                "conclusions": [{**TREND, "along": "rate"}],
            },
            "compares an open loop with a closed one",
            "choose one with `at`",
        ),
    ],
)
def test_wrong_suites_are_explained(changed: dict[str, Any], problem: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        made_suite(**changed)
    assert "made.yaml" in caught.value.problem
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert caught.value.code == "invalid-suite"


def test_a_knee_may_stand_anywhere() -> None:
    knee = {
        "name": "knee",
        "says": "x",
        "test": "knee",
        "quantity": "tps",
        "along": "threads",
        "gain_below": 0.1,
    }
    assert made_suite(conclusions=[knee]).conclusions[0].test == "knee"


def test_a_dimension_that_nothing_can_do_yet_can_be_written() -> None:
    suite = made_suite(
        dimensions={"media": ["hdd", "nvme"], "threads": [1, 8], "runtime": ["container", "vm"]}
    )
    assert suite.dimensions["runtime"] == ("container", "vm")


def test_file_and_suite_must_agree_on_the_name(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(MADE, encoding="utf-8")
    with pytest.raises(UsageError, match="calls itself 'made-layers'"):
        load_matrix_suites(tmp_path)


def test_other_kinds_are_refused() -> None:
    with pytest.raises(UsageError, match="'kind'"):
        parse_matrix_suite(yaml.safe_dump(made_content(kind="oltp")), source="made.yaml")
