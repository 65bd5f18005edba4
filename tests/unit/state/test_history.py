from __future__ import annotations

from pathlib import Path

from grampus.core.progress import SilentProgress
from grampus.state.history import OperationHistory
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from tests.fakes.clock import FakeClock


def test_operations_are_found_by_subject_and_by_kind(tmp_path: Path) -> None:
    store, clock = Store(tmp_path / "state.db"), FakeClock()
    journal = OperationJournal(store, clock, actor="anna")
    step = Step("wait", "Wait", lambda: clock.sleep(2.5))
    for kind, lab, subject in (
        ("db.create", "t", "shop"),
        ("db.stop", "t", "shop"),
        ("db.create", "t", "other"),
        ("db.create", "elsewhere", "shop"),
    ):
        operation = journal.begin(kind, lab, subject, {"name": subject})
        if kind == "db.create":
            journal.apply(operation, [step], SilentProgress(), undo_on_failure=False)
    history = OperationHistory(store, "t")
    made, stopped = history.of_subjects(["shop"])
    assert (made.kind, made.status, made.spec) == ("db.create", "done", {"name": "shop"})
    assert (made.changed_at - made.started_at).total_seconds() == 2.5
    assert (stopped.kind, stopped.status, stopped.step) == ("db.stop", "running", "")
    assert [found.subject for found in history.of_kinds(["db.create"])] == ["shop", "other"]
    assert history.of_subjects([]) == []
    assert [found.kind for found in history.of_subjects(["shop"], last=1)] == ["db.stop"]
    assert history.of_subjects(["shop"], last=0) == []
    assert history.of_subjects(["shop"], kind_prefixes=("volume.", "lab")) == []
    of_databases = history.of_subjects(["shop", "other"], kind_prefixes=("volume.", "db."), last=2)
    assert [found.subject for found in of_databases] == ["shop", "other"], "oldest first"
    assert made.actor == "anna"
    store.close()
