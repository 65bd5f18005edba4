"""What a place cannot do is said in words."""

from __future__ import annotations

import pytest

from grampus.bench.matrix.capabilities import Capabilities, Offer, why_not_runnable
from grampus.bench.matrix.cells import Cell
from grampus.bench.matrix.dimensions import Point

LAB = Capabilities(
    place="this lab",
    offers={
        "workload": Offer(values=("point-select", "update-index")),
        "threads": Offer(at_least=1, at_most=64),
        "copies": Offer(values=(1,), at_least=2, at_most=3),
        "objectstore": Offer(values=("bluestore",), because="its Ceph 20 has no FileStore"),
        "databases": Offer(at_most=10),
        "clients": Offer(at_least=2),
        "runtime": Offer(because="nothing starts servers yet"),
        "osd_cores_per_host": Offer(values=("all",), at_most=2),
    },
    versions={"ceph": ("16.2.15", "20.2.4"), "percona": ()},
)


def _cell(point: Point, **versions: str) -> Cell:
    return Cell(
        point=point,
        warmup_s=1,
        measure_s=1,
        dataset_bytes=1,
        tables=4,
        distribution="uniform",
        block_bytes=None,
        versions=tuple(sorted(versions.items())),
    )


@pytest.mark.parametrize(
    ("point", "versions", "sentence"),
    [
        ({}, {}, None),
        ({"workload": "update-index", "threads": 64, "copies": 2}, {}, None),
        ({"copies": 1}, {"ceph": "16.2"}, None),
        ({}, {"ceph": "20.2.4", "mysql": "9.7"}, None),
        ({"osd_cores_per_host": 2}, {}, None),
        # Without an offer a dimension has its default alone.
        ({"media": "hdd"}, {}, "This lab cannot do media hdd (only nvme)."),
        ({"threads": 65}, {}, "This lab cannot do threads 65 (only 1 to 64)."),
        ({"copies": 4}, {}, "This lab cannot do copies 4 (only 1 or 2 to 3)."),
        ({"databases": 11}, {}, "This lab cannot do databases 11 (only at most 10)."),
        (
            {"objectstore": "filestore"},
            {},
            "This lab cannot do objectstore filestore (only bluestore: its Ceph 20 has no "
            "FileStore).",
        ),
        (
            {"workload": "tpcc-like", "runtime": "vm"},
            {},
            "This lab cannot do workload tpcc-like (only point-select or update-index); "
            "runtime vm (none: nothing starts servers yet).",
        ),
        ({}, {"ceph": "18.2"}, "This lab cannot do ceph 18.2 (it has 16.2.15 and 20.2.4)."),
        # 16.2.1 is not 16.2.15.
        ({}, {"ceph": "16.2.1"}, "This lab cannot do ceph 16.2.1 (it has 16.2.15 and 20.2.4)."),
        ({}, {"percona": "8.4"}, "This lab cannot do percona 8.4 (it has none)."),
    ],
)
def test_what_is_missing_is_named(
    point: dict[str, object], versions: dict[str, str], sentence: str | None
) -> None:
    offered = {"clients": 2, "runtime": "container", **point}
    place = LAB
    if "runtime" not in point:
        offers = {name: offer for name, offer in LAB.offers.items() if name != "runtime"}
        place = LAB.model_copy(update={"offers": offers})
    assert why_not_runnable(_cell(Point.model_validate(offered), **versions), place) == sentence


def test_a_lower_limit_alone_is_told() -> None:
    place = Capabilities(place="this lab", offers={"clients": Offer(at_least=2)})
    assert why_not_runnable(_cell(Point(clients=1)), place) == (
        "This lab cannot do clients 1 (only at least 2)."
    )
