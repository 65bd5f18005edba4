"""Prompt reports: the running MGR alone is told, and told to stop again."""

from __future__ import annotations

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.mgr_reports import prompt_reports
from tests.fakes.commands import ENOENT, FakeRunner

ASKED = [
    "ceph tell mgr config set mgr_stats_period 1",
    "ceph tell mgr config set mgr_tick_period 1",
    "ceph tell mgr config unset mgr_stats_period",
    "ceph tell mgr config unset mgr_tick_period",
]


def test_reports_are_prompt_inside_the_block_alone() -> None:
    runner = FakeRunner(dict.fromkeys(ASKED, ""))
    with prompt_reports(CephCluster(runner)):
        assert sorted(runner.asked) == ASKED[:2]
    assert sorted(runner.asked[2:]) == ASKED[2:]


def test_a_failure_inside_ends_them_too() -> None:
    runner = FakeRunner(dict.fromkeys(ASKED, ""))
    with pytest.raises(ValueError, match="inside"), prompt_reports(CephCluster(runner)):
        raise ValueError("inside")
    assert sorted(runner.asked[2:]) == ASKED[2:]


def test_a_mgr_that_cannot_be_told_is_no_obstacle() -> None:
    runner = FakeRunner(dict.fromkeys(ASKED, ENOENT))
    with prompt_reports(CephCluster(runner)):
        pass
    assert len(runner.asked) == 4
