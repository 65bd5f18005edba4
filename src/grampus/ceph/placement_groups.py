"""Which placement group holds an object: Ceph's own rule, computed here for thousands at once.

The rule is that of the cluster and never changes for a pool, since data is found by it (Ceph,
`ceph_str_hash_rjenkins` and `ceph_stable_mod`; the hash is Bob Jenkins' of 1996). To ask the MONs
(`ceph osd map`) takes a quarter of a second an object.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ConfigDict

from grampus.core.models import Model

_WORD = 0xFFFFFFFF
_GOLDEN_RATIO = 0x9E3779B9
_BLOCK_BYTES = 12


class PoolPlacement(Model):
    """What decides where the objects of a pool go."""

    model_config = ConfigDict(frozen=True)

    pool_id: int
    placement_groups: int


def decide_group(placement: PoolPlacement, object_name: str, *, namespace: str = "") -> str:
    """The id, such as `1.1c`, of the group that holds an object without locator."""
    # As `pg_pool_t::hash_key` joins them.
    key = f"{namespace}\037{object_name}" if namespace else object_name
    hashed = hash_name(key.encode())
    number = _stable_mod(hashed, placement.placement_groups)
    return f"{placement.pool_id}.{number:x}"


def decide_groups(
    placement: PoolPlacement, object_names: Iterable[str], *, namespace: str = ""
) -> set[str]:
    """The groups that hold these objects of one namespace."""
    return {decide_group(placement, name, namespace=namespace) for name in object_names}


def hash_name(name: bytes) -> int:
    """The 32-bit hash of an object's name."""
    a = b = _GOLDEN_RATIO
    c = 0
    whole = len(name) // _BLOCK_BYTES * _BLOCK_BYTES
    for start in range(0, whole, _BLOCK_BYTES):
        a = (a + _word(name, start)) & _WORD
        b = (b + _word(name, start + 4)) & _WORD
        c = (c + _word(name, start + 8)) & _WORD
        a, b, c = _mix(a, b, c)
    rest = name[whole:]
    # The lowest byte of the last word is the length's.
    c = (c + len(name) + (_word(rest, 8) << 8)) & _WORD
    b = (b + _word(rest, 4)) & _WORD
    a = (a + _word(rest, 0)) & _WORD
    return _mix(a, b, c)[2]


def _word(name: bytes, start: int) -> int:
    return int.from_bytes(name[start : start + 4], "little")


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & _WORD) ^ (c >> first)
        b = (b - c - a) & _WORD
        b ^= (a << second) & _WORD
        c = ((c - a - b) & _WORD) ^ (b >> third)
    return a, b, c


def _stable_mod(hashed: int, count: int) -> int:
    """`hashed` below `count`, moving as few as can be when `count` grows to the next power of 2."""
    mask = (1 << (count - 1).bit_length()) - 1
    low = hashed & mask
    return low if low < count else hashed & (mask >> 1)
