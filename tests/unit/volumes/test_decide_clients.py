from __future__ import annotations

import pytest

from grampus.ceph.rbd import ImageLock
from grampus.volumes.decide_clients import decide_silent_owner
from grampus.volumes.model import Attachment, VolumeRecord, VolumeSpec

OURS, KILLED, ELSEWHERE = "10.213.0.11:0/7", "10.213.0.11:0/8", "10.213.0.12:0/9"


def record(host: str | None, address: str | None = None) -> VolumeRecord:
    spec = VolumeSpec(name="demo", pool="databases", image="demo.1/demo", size_bytes=1 << 30)
    attachment = None
    if address is not None:
        attachment = Attachment(
            host=host or "",
            driver="volumed",
            driver_reason="",
            device="/dev/loop0",
            mount_path="/m",
            client_address=address,
        )
    return VolumeRecord(spec=spec, ceph_user="u", host=host, attachment=attachment)


@pytest.mark.parametrize(
    ("volume", "owner", "watchers", "blocklist", "expected"),
    [
        (record("h1", OURS), None, [], [], None),
        (record("h1", OURS), OURS, [OURS], [], None),
        (record("h1", OURS), OURS, [], [], OURS),
        (record("h1", OURS), OURS, [ELSEWHERE], [], OURS),
        (record("h1", OURS), OURS, [], [OURS], None),
        # A command of ours that was killed while it had the lock.
        (record("h1", OURS), KILLED, [OURS], [], None),
        (record(None), OURS, [], [], None),
        # Half attached, or lent: whatever runs on that host may be its client.
        (record("h1"), KILLED, [], [], KILLED),
        (record("h1"), ELSEWHERE, [], [], None),
    ],
)
def test_whose_lock_must_not_be_taken(
    volume: VolumeRecord,
    owner: str | None,
    watchers: list[str],
    blocklist: list[str],
    expected: str | None,
) -> None:
    locks = [] if owner is None else [ImageLock(id="auto 1", locker="client.1", address=owner)]
    found = decide_silent_owner(volume, "10.213.0.11", locks, watchers, blocklist)
    assert found == expected


def test_of_a_host_whose_address_is_unknown_any_silent_owner_counts() -> None:
    locks = [ImageLock(id="auto 1", locker="client.1", address=ELSEWHERE)]
    assert decide_silent_owner(record("h1"), None, locks, [], []) == ELSEWHERE
