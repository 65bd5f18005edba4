from __future__ import annotations

import pytest

from grampus.ceph.placement_groups import PoolPlacement, decide_group, decide_groups, hash_name


# What `ceph osd map` of Ceph 20.2.4 said (raw_pgid) of names of all remainders of 12.
@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("rbd_data.10cfd8a6350e.0000000000000000", 0x8B82DC2F),
        ("rbd_data.10cfd8a6350e.0000000000000001", 0x449E3F77),
        ("rbd_data.10cfd8a6350e.0000000000000004", 0xF5EBA1BD),
        ("rbd_header.10cfd8a6350e", 0xBCA0B1C4),
        ("rbd_data.x.0000000000000000", 0x766F04DC),
    ],
)
def test_the_hash_is_cephs(name: str, hashed: int) -> None:
    assert hash_name(name.encode()) == hashed


@pytest.mark.parametrize(
    ("groups", "group"),
    [
        (32, "1.17"),
        (1, "1.0"),
        # 0x...f77: of 64 that is 0x37 = 55; of 40 there is no 55, so it stays where 32 put it.
        (64, "1.37"),
        (40, "1.17"),
        (56, "1.37"),
    ],
)
def test_a_group_is_split_only_once_its_other_half_is_there(groups: int, group: str) -> None:
    placement = PoolPlacement(pool_id=1, placement_groups=groups)
    assert decide_group(placement, "rbd_data.10cfd8a6350e.0000000000000001") == group


def test_a_namespace_is_a_part_of_what_is_hashed() -> None:
    placement = PoolPlacement(pool_id=1, placement_groups=256)
    name = "rbd_header.10cfd8a6350e"
    hashed = hash_name(b"shop.1\x1f" + name.encode())
    group = f"1.{hashed % 256:x}"
    assert (
        decide_group(placement, name, namespace="shop.1") == group != decide_group(placement, name)
    )
    assert decide_groups(placement, [name], namespace="shop.1") == {
        decide_group(placement, name, namespace="shop.1")
    }


def test_groups_of_many_objects_are_named_once() -> None:
    placement = PoolPlacement(pool_id=7, placement_groups=4)
    names = [f"rbd_data.a.{number:016x}" for number in range(200)]
    assert decide_groups(placement, names) == {"7.0", "7.1", "7.2", "7.3"}
