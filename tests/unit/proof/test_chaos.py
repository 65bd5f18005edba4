"""What faults at random add up to."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.proof.chaos.__main__ import load_published
from tests.proof.chaos.bank_client import ACCOUNTS, TOTAL, read_answer, render_transfer
from tests.proof.chaos.draws import FAULTS, Expected, FaultName, draw_faults
from tests.proof.chaos.list_client import read_transaction, render_transaction
from tests.proof.chaos.moments import (
    Phases,
    count_late,
    count_wrong_moves,
    find_last_answer,
    find_outage,
)
from tests.proof.chaos.summary import TrialResult, is_broken, quantile, render_page, summarise


def trial(
    fault: FaultName = "power-cut",
    *,
    outage_s: float | None = 5.0,
    moved: bool = True,
    lost: int = 0,
    two_writers: int = 0,
    neighbour_errors: int = 0,
    wrong_totals: int = 0,
    anomalies: int = 0,
    wrong_moves: int = 0,
    expected: Expected | None = None,
) -> TrialResult:
    detail = {"detected_s": 3.0, "fenced_s": 4.0, "attached_s": 4.5, "serving_s": 5.0}
    return TrialResult(
        *(1, fault, "2026-11-28T00:00:00+00:00", outage_s, moved, 100),
        lost=lost,
        two_writers=two_writers,
        neighbour_errors=neighbour_errors,
        wrong_totals=wrong_totals,
        anomalies=anomalies,
        wrong_moves=wrong_moves,
        expected=expected,
        detail=detail if moved else {},
    )


def test_a_seed_draws_the_same_faults_and_every_kind() -> None:
    assert draw_faults(7, 100) == draw_faults(7, 100)
    assert draw_faults(7, 20) == draw_faults(7, 100)[:20]
    assert draw_faults(7, 100) != draw_faults(8, 100)
    in_lab = {fault for fault in FAULTS if "lab" in fault.kinds}
    assert set(draw_faults(7, len(in_lab))) == in_lab
    assert set(draw_faults(7, len(FAULTS), "site")) == set(FAULTS)


def test_what_is_expected_depends_on_the_place() -> None:
    """A site whose hosts have no MONs and OSDs bears the loss of two of three."""
    fault = next(one for one in FAULTS if one.name == "two-hosts-power-cut")
    assert (fault.expected_in("lab"), fault.expected_in("site")) == ("returns", "moves")
    moved = trial("two-hosts-power-cut", expected=fault.expected_in("site"))
    stayed = trial("two-hosts-power-cut", moved=False, expected=fault.expected_in("site"))
    assert (moved.is_wrong_fence, moved.is_unrecovered) == (False, False)
    assert stayed.is_unrecovered
    assert "GRAMPUS_CHAOS_ON=site make chaos" in render_page([moved], 1, "site")


def test_a_failover_from_a_host_that_the_fault_did_not_take_is_counted() -> None:
    moves = [{"details": {"former_host": host}} for host in ("h1", "h2", "h1")]
    assert [count_wrong_moves(moves, taken) for taken in ({"h1", "h2"}, {"h1"}, ())] == [0, 1, 3]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (trial(lost=1), "lost_commits"),
        (trial(two_writers=1), "two_writers"),
        (trial("osd-killed", moved=True), "wrong_fences"),
        (trial("cut-from-controller", moved=True), "wrong_fences"),
        # It was taken from a host that was well, and came back there.
        (trial("osd-killed", moved=False, wrong_moves=1), "wrong_fences"),
        (trial(neighbour_errors=1), "neighbour_errors"),
        (trial(wrong_totals=1), "wrong_totals"),
        (trial(anomalies=1), "anomalies"),
        (trial("two-hosts-power-cut", moved=True, wrong_moves=1), "wrong_fences"),
        (trial(outage_s=None), "unrecovered"),
        (trial(moved=False), "unrecovered"),
    ],
)
def test_each_broken_promise_is_counted(bad: TrialResult, kind: str) -> None:
    good = [trial(), trial("osd-killed", moved=False), trial("server-killed", moved=False)]
    assert not is_broken(summarise(good))
    summary = summarise([*good, bad])
    assert summary[kind] == 1
    assert is_broken(summary)
    assert "**A promise was broken.**" in render_page([*good, bad], 1)


def test_times_are_those_of_databases_that_had_to_move() -> None:
    moved = [trial(outage_s=float(n)) for n in range(1, 101)]
    summary = summarise([*moved, trial("server-killed", outage_s=900.0, moved=False)])
    assert (summary["rto_p50_s"], summary["rto_p95_s"], summary["rto_p99_s"]) == (50.0, 95.0, 99.0)
    assert summarise([])["rto_p50_s"] is None
    page = render_page(moved, 1)
    assert "| p95 | 95.0 s | 12 s |" in page
    assert "| power-cut | moves | 100 | 50.0 s | 100.0 s | 3.0 s | 4.0 s | 4.5 s | 5.0 s |" in page


def test_the_page_says_what_each_run_ran_with() -> None:
    first = [replace(trial(), number=n, facts={"commit": "a1", "Ceph": "20.2.4"}) for n in (1, 2)]
    later = replace(trial(), number=3, at="2026-11-30T01:00:00+00:00", facts={"commit": "b2"})
    page = render_page([*first, later], 1)
    assert "| runs | days | commit | Ceph |\n|---|---|---|---|\n" in page
    assert "| 1 to 2 | 2026-11-28 | a1 | 20.2.4 |\n| 3 to 3 | 2026-11-30 | b2 |  |\n" in page


@pytest.mark.parametrize(
    ("seed", "faults", "refused"),
    [
        (7, 30, None),
        (7, 1, None),  # fewer than are published
        (8, 30, "runs of seed 7, not 8"),
        (7, 0, "other faults than seed 7 draws now"),
    ],
)
def test_published_runs_go_on_with_their_own_seed(
    tmp_path: Path, seed: int, faults: int, refused: str | None
) -> None:
    drawn = draw_faults(7, faults or 30)
    done = [trial(one.name) for one in draw_faults(7, 3)]
    file = tmp_path / "chaos.json"
    file.write_text(json.dumps({"seed": 7, "trials": [asdict(one) for one in done]}))
    if refused is None:
        assert load_published(file, seed, drawn) == done[:faults]
        return
    with pytest.raises(ValueError, match=refused):
        load_published(file, seed, drawn if faults else drawn[::-1])


def test_without_published_runs_none_can_follow(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No runs are published"):
        load_published(tmp_path / "chaos-site.json", 1, draw_faults(1, 3))


@pytest.mark.parametrize(
    ("values", "q", "expected"), [([], 0.5, None), ([3.0, 1.0, 2.0], 0.5, 2.0)]
)
def test_quantiles(values: list[float], q: float, expected: float | None) -> None:
    assert quantile(values, q) == expected


def test_the_outage_is_the_longest_pause_that_reaches_into_the_trial() -> None:
    outage = find_outage([0.0, 50.0, 60.0, 60.1, 68.0, 69.0], 60.05, 70.0)
    assert (outage.began_s, outage.lasted_s) == (60.1, pytest.approx(7.9))


def test_phases_count_from_the_answer_before_they_were_detected() -> None:
    """Two hosts fail: it serves again after the failover, and waits longer once more."""
    answers_s = [9.0, 9.5, 14.1, 14.2, 40.0]
    phases = Phases(detected_s=12.0, fenced_s=13.0, attached_s=13.5, serving_s=14.0)
    assert find_outage(answers_s, 9.6, 41.0).began_s == 14.2
    assert phases.after(find_last_answer(answers_s, phases.detected_s)) == {
        "detected_s": 2.5,
        "fenced_s": 3.5,
        "attached_s": 4.0,
        "serving_s": 4.5,
    }
    assert find_last_answer([13.0], 12.0) == 12.0


def test_answers_between_fence_and_new_server_are_those_of_another_writer() -> None:
    phases = Phases(detected_s=10.0, fenced_s=11.0, attached_s=13.0, serving_s=14.0)
    assert count_late([9.0, 10.9, 14.1], phases) == 0
    assert count_late([9.0, 11.5, 14.1], phases) == 1
    assert phases.after(9.0)["serving_s"] == 5.0


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"{TOTAL}\n7\n", (True, False)),
        (f"{TOTAL}\n", (False, False)),  # it ended before the commit
        ("", (False, False)),
        (f"{TOTAL - 1}\n7\n", (True, True)),  # half of a transfer was there
        (f"{TOTAL}\n8\n", (False, False)),
    ],
)
def test_what_the_bank_hears(output: str, expected: tuple[bool, bool]) -> None:
    assert read_answer(output, 7) == expected


def test_a_transfer_is_between_two_accounts() -> None:
    for number in range(1, 10 * ACCOUNTS):
        statement = render_transfer(number)
        source, target = re.findall(r"where number = (\d+)", statement)
        assert source != target
        assert int(source) < ACCOUNTS
        assert int(target) < ACCOUNTS


ACTIONS = [["append", 1, 7], ["r", 2, None], ["r", 3, None]]


def test_a_transaction_on_lists_answers_with_what_it_read() -> None:
    sql = render_transaction(ACTIONS)
    assert sql.count("select concat('read:'") == 2
    assert sql.index("serializable") < sql.index("start transaction") < sql.index("insert")
    assert sql.index("commit") < sql.index("select 'committed'")
    answered = read_transaction("read:1,2\nread:\ncommitted\n", "", ACTIONS)
    assert answered == ("ok", [["append", 1, 7], ["r", 2, [1, 2]], ["r", 3, []]])


@pytest.mark.parametrize(
    ("output", "errors", "outcome"),
    [
        ("", "ERROR 1213 (40001) at line 1: Deadlock found when trying to get lock", "fail"),
        ("", "ERROR 2003 (HY000): Can't connect to MySQL server", "fail"),
        # The connection may have been lost after the commit.
        ("read:1\nread:\n", "ERROR 2013 (HY000) at line 1: Lost connection", "info"),
        ("", "ERROR 1290 (HY000) at line 1: read only", "info"),
        ("", "", "info"),
    ],
)
def test_only_what_certainly_was_not_committed_has_failed(
    output: str, errors: str, outcome: str
) -> None:
    assert read_transaction(output, errors, ACTIONS) == (outcome, ACTIONS)
