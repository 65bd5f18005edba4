"""What is told of a proof, and what it is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.proof.render_pages import (
    PageFacts,
    render_left,
    render_page,
    render_result,
    summarise,
)
from tests.proof.rescue_server import parse_check, parse_recovery, render_rescue_config
from tests.proof.results import Result
from tests.proof.settings import FULL, decide_is_full, parse_settings

KEPT = Result(
    *(1, "journal", "kill-volumed", "kept", "2026-11-21T22:00:00+00:00", 8.0),
    acknowledged=400,
    acknowledged_writes=1600,
    recovery_s=3.0,
)
WITHIN = replace(
    KEPT,
    number=2,
    write_path="cache",
    kind="lose-host",
    verdict="within-lag",
    lost=3,
    lost_age_ms=88.0,
    recovery_s=9.0,
    at="2026-11-21T23:00:00+00:00",
)
BROKEN = replace(
    KEPT, number=3, verdict="violated", reasons=("1 flushes\nare | lost",), recovery_s=5.0
)
FACTS = PageFacts(7, 200, {"Ceph": "20.2.4", "volumed": "0123"})


def test_a_page_counts_by_kind_and_write_path() -> None:
    page = render_page("crashes", [KEPT, replace(KEPT, number=4, recovery_s=4.0), WITHIN], FACTS)
    assert "**3 of 200 done: no promise broken.**" in page
    assert (
        "| volumed is killed (SIGKILL) | `journal` | 2 | 800 | 3,200 | 0 | - | 0 | 3.5 s | 4.0 s |"
        in page
    )
    assert "| `cache` | 1 | 400 | 1,600 | 3 | 88 ms | 0 | 9.0 s | 9.0 s |" in page
    assert "| all |  | 3 | 1,200 | 4,800 | 3 | 88 ms | 0 | 4.0 s | 9.0 s |" in page
    assert "- date: 2026-11-21 22:00 to 2026-11-21 23:00 (UTC)" in page
    assert "- Ceph: 20.2.4" in page
    assert "GRAMPUS_CRASHES_SEED=7 GRAMPUS_CRASHES=200 make crashes" in page
    assert "not as promised" not in page


@pytest.mark.parametrize("part", ["crashes", "fences", "databases"])
def test_a_broken_promise_is_on_every_page(part: str) -> None:
    results = [KEPT, BROKEN, replace(BROKEN, number=4, verdict="unrecovered")]
    page = render_page(part, results, FACTS)  # type: ignore[arg-type]
    assert "3 of 200 done: 1 broke a promise, 1 could not be recovered." in page
    assert "- 3 (journal, kill-volumed), violated: 1 flushes are | lost" in page
    assert f"build/crashes/{part}.jsonl" in page


def test_progress_is_readable() -> None:
    assert summarise([], 5) == "0 of 5 done."
    line = render_result(WITHIN, 200)
    assert "2/200  cache    lose-host" in line
    assert "400 acknowledged, 3 lost (the oldest 88 ms), back in 9.0 s" in line
    assert "are | lost" in render_result(BROKEN, 200)
    assert render_left(0, [5.0]) == render_left(4, []) == ""
    assert render_left(30, [4.0, 8.0]) == "about 3 min left for 30 more"


def test_settings_come_from_the_environment() -> None:
    settings = parse_settings({})
    assert (settings.totals, settings.write_paths) == (FULL, ("journal", "cache"))
    few = parse_settings({"GRAMPUS_CRASHES": "3", "GRAMPUS_CRASHES_WRITE_PATHS": "journal"})
    assert (few.totals["crashes"], few.totals["fences"]) == (3, 100)
    assert few.write_paths == ("journal",)
    for wrong in ({"GRAMPUS_FENCES": "many"}, {"GRAMPUS_CRASHES_WRITE_PATHS": "direct"}):
        with pytest.raises(ValueError, match="give"):
            parse_settings(wrong)


def test_docs_are_written_by_a_whole_proof_only() -> None:
    whole = parse_settings({})
    assert decide_is_full("crashes", whole, 200)
    assert not decide_is_full("crashes", whole, 199)
    assert not decide_is_full("crashes", parse_settings({"GRAMPUS_CRASHES": "3"}), 3)
    journal = parse_settings({"GRAMPUS_CRASHES_WRITE_PATHS": "journal"})
    assert not decide_is_full("crashes", journal, 200)


def test_a_rescue_server_reads_the_same_data_and_is_reached_by_nobody() -> None:
    config = (
        "[mysqld]\ndatadir = /var/lib/mysql/data\nssl_ca = /a/ca.pem\nport = 3306\n"
        "bind_address = 10.0.0.1\nsocket = /run/mysqld/mysqld.sock\ninnodb_flush_method = O_DIRECT"
    )
    lines = render_rescue_config(config).splitlines()
    assert lines[:3] == [
        "[mysqld]",
        "datadir = /var/lib/mysql/data",
        "innodb_flush_method = O_DIRECT",
    ]
    assert {"skip_networking = ON", "user = mysql", "socket = /run/rescue/mysqld.sock"} <= set(
        lines
    )


def test_what_a_server_says_of_recovery_and_check_is_read() -> None:
    log = "1 [Note] Starting\n2 [System] Crash recovery starting\n3 [ERROR] Page is Corrupt\n"
    assert parse_recovery(log) == [
        "2 [System] Crash recovery starting",
        "3 [ERROR] Page is Corrupt",
    ]
    assert parse_check([["ledger.entries", "check", "status", "OK"]]) == ""
    wrong = [["ledger.entries", "check", "error", "Corrupt"]]
    assert parse_check(wrong) == "ledger.entries check error Corrupt"
