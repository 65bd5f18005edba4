from __future__ import annotations

import pytest

from grampus.core.names import require_name
from grampus.core.units import GIB, MIB, TIB
from grampus.databases.clones.decide_golden import GOLDEN_PREFIX, GoldenSpec, decide_golden
from grampus.databases.model import FlavourName


def golden(
    size_bytes: int = GIB,
    *,
    flavour: FlavourName = "mysql",
    pool: str = "p",
    server: str = "sid-1",
    external_log_bytes: int | None = None,
) -> GoldenSpec:
    return decide_golden(
        flavour,
        size_bytes=size_bytes,
        external_log_bytes=external_log_bytes,
        pool=pool,
        host="h1",
        image_id=None,
        server=server,
    )


@pytest.mark.parametrize(
    ("size_bytes", "class_bytes"),
    [
        (GIB, 512 * MIB),
        (4 * GIB - 1, 512 * MIB),
        (4 * GIB, 4 * GIB),
        (31 * GIB, 4 * GIB),
        (32 * GIB, 32 * GIB),
        (TIB, 256 * GIB),
        (2 * TIB, 2 * TIB),
        (256 * TIB, 2 * TIB),
    ],
)
def test_the_biggest_class_that_fits_is_cloned(size_bytes: int, class_bytes: int) -> None:
    assert golden(size_bytes).size_bytes == class_bytes


@pytest.mark.parametrize(
    ("size_bytes", "expected_bytes"),
    [
        (GIB, 576 * MIB),
        (4 * GIB, 4 * GIB),
        (4 * GIB + 10 * MIB, 4 * GIB),
        (5 * GIB, 4 * GIB + 64 * MIB),
        (512 * MIB, 512 * MIB),
    ],
)
def test_an_external_log_is_beside_the_file_system_if_there_is_room(
    size_bytes: int, expected_bytes: int
) -> None:
    made = golden(size_bytes, external_log_bytes=64 * MIB)
    assert made.size_bytes == expected_bytes
    # One that is there already is never bigger than the database.
    smaller = golden(4 * GIB, external_log_bytes=64 * MIB)
    assert made.name != smaller.name or made.size_bytes == smaller.size_bytes


def test_a_clone_never_has_to_shrink() -> None:
    for size_bytes in (GIB, 5 * GIB, 100 * GIB, 3 * TIB):
        assert golden(size_bytes).size_bytes <= size_bytes


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("size_bytes", [GIB, 4 * GIB, 32 * GIB, 256 * GIB, 2 * TIB])
def test_its_name_is_a_volumes(flavour: FlavourName, size_bytes: int) -> None:
    name = golden(size_bytes, flavour=flavour, server="trixie-4d5719302543").name
    assert require_name("volume", name).startswith(GOLDEN_PREFIX)


def test_whatever_makes_another_data_directory_makes_another_name() -> None:
    names = {
        golden().name,
        golden(4 * GIB).name,
        golden(flavour="mariadb").name,
        golden(pool="q").name,
        golden(server="sid-2").name,
        golden(external_log_bytes=64 * MIB).name,
        golden(external_log_bytes=32 * MIB).name,
    }
    assert len(names) == 7
