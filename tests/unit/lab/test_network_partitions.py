from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from grampus.hosts.lab_host import PartitionName, ensure_partition_noted, observe_partition
from grampus.lab.network import render_partition_rules


def words(partition: PartitionName) -> list[str]:
    return [" ".join(rule) for rule in render_partition_rules(partition)]


def test_from_ceph_what_goes_to_and_comes_from_its_ports_is_rejected() -> None:
    rules = words("ceph")
    assert "unreachable pref 6800 ipproto tcp dport 6800-7568" in rules
    assert "unreachable pref 6800 ipproto tcp sport 6789" in rules
    assert len(rules) == 6
    assert all(rule.startswith("unreachable") for rule in rules)


def test_from_clients_all_but_ceph_is_rejected() -> None:
    *exceptions, last = words("clients")
    assert last == "unreachable pref 6800 ipproto tcp"
    assert len(exceptions) == 6
    assert all(rule.startswith("pref 6799 ipproto tcp ") for rule in exceptions)
    assert all(rule.endswith(" lookup main") for rule in exceptions)


@pytest.mark.parametrize("partition", ["controller", "incoming", "outgoing"])
def test_no_rules_for_what_they_cannot_tell(partition: PartitionName) -> None:
    assert words(partition) == []


@pytest.mark.parametrize("partition", get_args(PartitionName))
def test_it_is_noted_for_one_host_until_it_is_healed(
    tmp_path: Path, partition: PartitionName
) -> None:
    ensure_partition_noted(tmp_path / "run", "h2", partition)
    assert observe_partition(tmp_path / "run", "h2") == partition
    assert observe_partition(tmp_path / "run", "h1") is None
    ensure_partition_noted(tmp_path / "run", "h2", None)
    ensure_partition_noted(tmp_path / "run", "h2", None)
    assert observe_partition(tmp_path / "run", "h2") is None


def test_a_note_that_was_cut_off_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "partition-h2").touch()
    assert observe_partition(tmp_path, "h2") is None
