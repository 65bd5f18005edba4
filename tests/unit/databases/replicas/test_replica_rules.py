"""Every kind that is refused is one that there is, and says what to do instead."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from grampus.core.errors import RefusedError
from grampus.databases.catalogue import KINDS
from grampus.databases.model import DatabaseRecord
from grampus.databases.replicas import replica_rules
from grampus.databases.replicas.replica_rules import replicas_of, require_allowed
from tests.fakes.specs import database_spec


def record(name: str, replica_of: str | None = None) -> DatabaseRecord:
    spec = database_spec(name=name, replica_of=replica_of)
    return DatabaseRecord(
        spec=spec,
        user=name,
        server_version="9.7",
        buffer_pool_bytes=1,
        created_at=datetime(2026, 11, 22, tzinfo=UTC),
    )


RECORDS = {
    "shop": record("shop"),
    "shop-r2": record("shop-r2", "shop"),
    "shop-r1": record("shop-r1", "shop"),
    "alone": record("alone"),
}


def test_no_rule_is_about_a_kind_that_there_is_not() -> None:
    assert set(replica_rules._NOT_ON_REPLICA) <= set(KINDS)
    assert set(replica_rules._NOT_UNDER_REPLICAS) <= set(KINDS)


@pytest.mark.parametrize("kind", sorted(replica_rules._NOT_ON_REPLICA))
def test_a_replica_refuses_in_two_sentences(kind: str) -> None:
    with pytest.raises(RefusedError) as caught:
        require_allowed(kind, "shop-r1", RECORDS)
    assert caught.value.code == "is-replica"
    assert "replica of shop" in caught.value.problem
    assert "{" not in caught.value.problem + caught.value.remedy
    require_allowed(kind, "alone", RECORDS)


@pytest.mark.parametrize("kind", sorted(replica_rules._NOT_UNDER_REPLICAS))
def test_a_primary_names_its_replicas(kind: str) -> None:
    with pytest.raises(RefusedError) as caught:
        require_allowed(kind, "shop", RECORDS)
    assert caught.value.code == "has-replicas"
    assert "shop-r1, shop-r2" in caught.value.problem
    assert "promote shop-r1" in caught.value.remedy
    require_allowed(kind, "alone", RECORDS)


@pytest.mark.parametrize("kind", ["db.start", "db.stop", "db.move", "db.limits", "db.restart"])
def test_what_keeps_replication_whole_is_allowed(kind: str) -> None:
    assert kind in KINDS
    for name in (*RECORDS, "unknown"):
        require_allowed(kind, name, RECORDS)


def test_replicas_are_found_by_their_primary() -> None:
    assert replicas_of(RECORDS, "shop") == ["shop-r1", "shop-r2"]
    assert replicas_of(RECORDS, "alone") == []
