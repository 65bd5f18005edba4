"""The capabilities of Grampus: what is asked for, what is missing, and what Ceph refused."""

from __future__ import annotations

import re
import shlex

import pytest

from grampus.core.errors import UsageError
from grampus.sites.required_caps import (
    find_denied,
    find_missing,
    has_too_much,
    parse_grants,
    render_grant,
    render_update,
    require_pool,
    require_pools,
    require_user,
    required_caps,
)
from grampus.volumes.decide_namespace import decide_capabilities
from grampus.volumes.model import VolumeRecord, VolumeSpec

NEEDED = required_caps("prod", "grampus", ["databases"])


def test_nothing_is_allowed_without_limits() -> None:
    for grant in (one for caps in NEEDED.values() for one in parse_grants(caps)):
        assert not re.fullmatch(r"allow [rwx*]+", grant)
        if grant.startswith('allow command "auth') or grant.startswith('allow command "config-key'):
            assert " with " in grant


def test_only_volumes_of_the_site_are_created() -> None:
    (create,) = (one for one in parse_grants(NEEDED["mon"]) if '"auth get-or-create" ' in one)
    assert "entity prefix client.grampus.prod. " in create
    assert 'caps_mon="profile rbd"' in create
    pattern = re.search(r'caps_osd regex "([^"]*)"', create)
    assert pattern is not None
    spec = VolumeSpec(name="shop", image="shop.0a1b2c3d/shop", pool="databases", size_bytes=1 << 30)
    record = VolumeRecord(
        spec=spec,
        ceph_user="grampus.prod.shop",
        shares_with=("databases/old.11112222", "databases"),
    )
    own = decide_capabilities(record)
    assert own["mon"] == "profile rbd"
    assert re.fullmatch(pattern[1], own["osd"])
    for other in (
        "allow *",
        "profile rbd",
        "profile rbd pool=databases",
        "profile rbd pool=glance namespace=a",
        f"{own['osd']}, allow rwx",
    ):
        assert re.fullmatch(pattern[1], other) is None


def test_of_several_pools_each_may_have_volumes_and_no_other() -> None:
    needed = required_caps("prod", "grampus", require_pools(["databases", "a.b", "databases"]))
    assert needed["osd"] == "profile rbd pool=a.b, profile rbd pool=databases"
    (create,) = (one for one in parse_grants(needed["mon"]) if '"auth get-or-create" ' in one)
    pattern = re.search(r'caps_osd regex "([^"]*)"', create)
    assert pattern is not None
    for pool, fits in {"databases": True, "a.b": True, "aXb": False, "glance": False}.items():
        caps = f"profile rbd pool={pool} namespace=shop.0a1b2c3d"
        assert (re.fullmatch(pattern[1], caps) is not None) is fits, pool
    assert [str(one) for one in find_missing(needed, NEEDED)][-1] == "osd: profile rbd pool=a.b"
    assert find_missing(NEEDED, needed) == [], "capabilities for more pools are enough"
    others = required_caps("prod", "grampus", ["databases", "other"])
    assert len(find_missing(others, needed)) == 3, "users of volumes in another pool, and the pool"
    assert required_caps("prod", "grampus", ["a.b", "databases"]) == needed


def _words(command: str) -> list[str]:
    # A shell joins these lines; shlex does not.
    return shlex.split(command.replace("\\\n", " "))


def test_commands_survive_a_shell() -> None:
    words = _words(render_grant("prod", "grampus", ["databases"]))
    assert words[:4] == ["ceph", "auth", "get-or-create", "client.grampus"]
    assert dict(zip(words[4:10:2], words[5:10:2], strict=True)) == NEEDED
    assert words[10:] == ["-o", "ceph.client.grampus.keyring"]
    words = _words(render_update("prod", "grampus", ["databases"]))
    assert words[:4] == ["ceph", "auth", "caps", "client.grampus"]
    assert dict(zip(words[4::2], words[5::2], strict=True)) == NEEDED


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (NEEDED, []),
        ({"mon": "allow *", "mgr": "allow *", "osd": "allow *"}, []),
        ({**NEEDED, "osd": "profile rbd pool=other"}, ["osd: profile rbd pool=databases"]),
        (
            {**NEEDED, "mgr": "allow command \"pg dump\",allow command 'pg repair'"},
            ['mgr: allow command "pg deep-scrub"', 'mgr: allow command "pg repair"'],
        ),
        (
            {
                **NEEDED,
                "mgr": 'allow command "pg dump";  allow command "pg repair", '
                'allow command "pg deep-scrub"',
            },
            [],
        ),
        (
            {**NEEDED, "mon": NEEDED["mon"].replace("config-key get", "config-key ls")},
            ['mon: allow command "config-key get" with key prefix grampus/prod/'],
        ),
        (
            {
                **NEEDED,
                "mon": NEEDED["mon"].replace(
                    'allow command "auth rm" with entity prefix client.grampus.prod.',
                    'allow command "auth rm"',
                ),
            },
            [],
        ),
    ],
)
def test_missing(found: dict[str, str], missing: list[str]) -> None:
    assert [str(one) for one in find_missing(NEEDED, found)] == missing


def test_a_user_that_may_do_everything() -> None:
    assert has_too_much({"mon": "allow *", "osd": "profile rbd"}) == ["mon"]
    assert has_too_much(NEEDED) == []


@pytest.mark.parametrize(
    ("command", "said", "grant"),
    [
        (
            "auth rm",
            "Error EACCES: access denied",
            'mon: allow command "auth rm" with entity prefix client.grampus.prod.',
        ),
        ("pg dump", "Error EACCES: access denied", 'mgr: allow command "pg dump"'),
        ("status", "Error EACCES: access denied", "mon: profile rbd"),
        (
            "rbd ls",
            "rbd: listing images failed: (1) Operation not permitted",
            "osd: profile rbd pool=databases",
        ),
        ("auth rm", "Error ENOENT: no such entity", None),
    ],
)
def test_what_ceph_refused(command: str, said: str, grant: str | None) -> None:
    found = find_denied(command, said, NEEDED)
    assert (None if found is None else str(found)) == grant


@pytest.mark.parametrize("user", ["", "client.", "a b", "x'y"])
def test_wrong_users(user: str) -> None:
    with pytest.raises(UsageError):
        require_user(user)


def test_names() -> None:
    assert require_user("client.grampus") == "grampus"
    assert require_pool("my.pool") == "my.pool"
    with pytest.raises(UsageError):
        require_pool("a b")
