"""What a replica holds alone, saved to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, RefusedError, UsageError
from grampus.databases.replicas.extracting import decide_relay_logs

from .replica_world import SOURCE, ReplicaWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ReplicaWorld]:
    """A primary `demo` that lost 3 of 10 transactions, and a replica `demo-r1` that has all."""
    world = ReplicaWorld(tmp_path)
    world.create(host="h1")
    world.add(host="h2")
    world.commit(transactions=10)
    assert world.done("demo-r1") == 10
    world.receiving("demo-r1", on=False)
    world.lose("demo", 3)
    yield world
    world.close()


def test_they_are_written_to_a_file_of_the_user(world: ReplicaWorld, tmp_path: Path) -> None:
    output = tmp_path / "errant.sql"
    written = world.errant().write("demo-r1", output)
    assert (written.transactions, written.comparison.ahead) == (3, f"{SOURCE}:8-10")
    lines = output.read_text().splitlines()
    assert [line for line in lines if not line.startswith("--")] == [
        f"{SOURCE}:{number}" for number in (8, 9, 10)
    ]
    assert output.stat().st_mode & 0o777 == 0o600
    assert written.size_bytes == output.stat().st_size
    host = world.host_of("demo-r1")
    assert [path for path in host.files if "errant" in str(path)] == []
    assert list(tmp_path.glob("*.part")) == []


def test_those_of_an_encrypted_replica_are_on_no_disk_in_clear(
    world: ReplicaWorld, tmp_path: Path
) -> None:
    records, host = world.service().operations.records, world.host_of("demo-r1")
    record = records.get("demo-r1")
    encrypted = record.spec.model_copy(update={"encryption": "luks2"})
    records.put(record.model_copy(update={"spec": encrypted}))
    world.errant().write("demo-r1", tmp_path / "errant.sql")
    made = [argv[-1] for argv in host.commands if argv[0] == "install" and "errant" in argv[-1]]
    assert made == ["/data/volumes/demo-r1/errant"]


def test_what_was_received_and_not_applied_is_taken_from_the_relay_logs(
    world: ReplicaWorld, tmp_path: Path
) -> None:
    host, daemon = world.host_of("demo-r1"), world.server("demo-r1")
    host.keep(daemon, done=9)
    host.held_back.add("mysqld-demo-r1")
    output = tmp_path / "errant.sql"
    assert world.errant().write("demo-r1", output).transactions == 3
    assert output.read_text().splitlines()[-3:] == [f"{SOURCE}:{n}" for n in (8, 9, 10)]


def test_a_file_that_would_lack_some_is_none(world: ReplicaWorld, tmp_path: Path) -> None:
    assert world.errant().show("demo-r1").ahead
    host, daemon = world.host_of("demo-r1"), world.server("demo-r1")
    host.keep(daemon, purged=8)
    with pytest.raises(GrampusError) as caught:
        world.errant().write("demo-r1", tmp_path / "errant.sql")
    assert caught.value.code == "errant-incomplete"
    assert "have only 2 of the 3" in caught.value.problem
    assert not (tmp_path / "errant.sql").exists()


def test_a_file_that_is_there_is_never_written_over(world: ReplicaWorld, tmp_path: Path) -> None:
    output = tmp_path / "errant.sql"
    output.write_text("mine")
    with pytest.raises(UsageError):
        world.errant().write("demo-r1", output)
    assert output.read_text() == "mine"


def test_a_directory_that_is_not_there_is_said(world: ReplicaWorld, tmp_path: Path) -> None:
    with pytest.raises(GrampusError, match="cannot be written"):
        world.errant().write("demo-r1", tmp_path / "no" / "errant.sql")


def test_without_any_there_is_nothing_to_write(world: ReplicaWorld, tmp_path: Path) -> None:
    world.replicas().renew("demo-r1", discards_errant=True)
    with pytest.raises(RefusedError) as caught:
        world.errant().write("demo-r1", tmp_path / "errant.sql")
    assert caught.value.code == "not-ahead"


def test_relay_logs_are_told_by_their_names_and_sorted_by_number() -> None:
    listed = ["relay.1000000", "relay.999999", "relay.index", "binlog.000001"]
    assert decide_relay_logs(listed) == ["relay.999999", "relay.1000000"]
