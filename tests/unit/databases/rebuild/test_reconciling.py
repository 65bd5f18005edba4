"""INV-58: a copy of the state, put back later, destroys nothing and is corrected by the cluster."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grampus.ceph.cluster import CephCluster
from grampus.ceph.image_notes import FoundImage
from grampus.ceph.migrations import RbdMigrations
from grampus.ceph.state_note import StateWatch
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import SilentProgress
from grampus.databases.rebuild.decide_noting import NotedRecords
from grampus.databases.rebuild.decide_reconcile import decide_reconcile
from grampus.databases.rebuild.rebuilding import Reconciled, StateRebuild
from grampus.state.backup import back_up_state
from grampus.state.generation import Generation, StateGeneration, decide_age
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store
from grampus.state.stored import StoredRecord, records_of_lab
from tests.fakes.clock import FakeClock
from tests.unit.operation_runner import make_runner

from .test_rebuilding import LAB, Grampus, database, volume

Restore = Callable[["Kept", Path], None]


class Kept(Grampus):
    """A state in a file, as a home has it; `command()` is a new process."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.store = Store(self.home.store_file)
        self.is_process_new = True
        self.destroyed: list[str] = []

    @property
    def watch(self) -> StateWatch:
        return StateWatch(self.generation, LAB, lambda: CephCluster(self.cluster))

    @property
    def journal(self) -> OperationJournal:
        watch = self.watch
        return OperationJournal(
            self.store, FakeClock(), require_current=lambda _: watch.require_current()
        )

    def reopen(self) -> None:
        self.store.close()
        self.store = Store(self.home.store_file)

    def begin(self, name: str) -> None:
        self.journal.begin("db.create", LAB, name, {})

    def end(self) -> None:
        with self.store.transaction() as connection:
            connection.execute("UPDATE operations SET status = 'done'")

    def settle(self) -> None:
        """As a command does first: what was cut off is undone, which destroys the database."""
        for operation in self.journal.unfinished(LAB):
            undo = Step("volume", "Make it", _nothing, lambda: self.destroyed.append("volume"))
            self.journal.undo(operation, [undo], SilentProgress(), error="it was cut off")

    def rebuilding(self) -> StateRebuild:
        cluster = CephCluster(self.cluster)
        runner = make_runner(LAB, self.store, self.journal, FakeClock())
        return StateRebuild(
            *(self.store, LAB, cluster, self.credentials),
            *(runner, RbdMigrations(cluster, FakeClock())),
        )

    def command(self) -> Reconciled | None:
        """What a command does with the state before anything else, and at its end."""
        reconciled = None
        if not self.watch.is_known() and self.watch.ask() == "older":
            reconciled = self.rebuilding().reconcile()
            self.watch.take_over()
        self.settle()
        self.note()
        return reconciled


def _nothing() -> None:
    """It is made."""


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    grampus = Kept(tmp_path / "home")
    yield grampus
    grampus.store.close()


def _put_back_file(kept: Kept, copy: Path) -> None:
    """As `cp` of the file alone."""
    kept.store.close()
    shutil.copyfile(copy / "state.db", kept.home.store_file)
    kept.store = Store(kept.home.store_file)


def _put_back_home(kept: Kept, copy: Path) -> None:
    """As `cp -a` of the whole directory over the one that is there: names and times as before."""
    kept.store.close()
    shutil.copytree(copy, kept.home.root, dirs_exist_ok=True, copy_function=_over)
    kept.store = Store(kept.home.store_file)


def _over(source: str, target: str) -> str:
    """Into the file that is there, which keeps its inode."""
    shutil.copyfile(source, target)
    shutil.copystat(source, target)
    return target


def _copy_home(kept: Kept, copy: Path) -> None:
    kept.reopen()  # all of it is in one file then
    shutil.copytree(kept.home.root, copy)


def _copied_while_shop_was_made(kept: Kept, copy: Path) -> object:
    """The home was copied in the middle of it; what is remembered now."""
    kept.add("old", image_id="01")
    kept.command()
    kept.begin("shop")
    _copy_home(kept, copy)
    kept.add("shop", image_id="02")
    kept.end()
    kept.command()
    return kept.remembered()


PUT_BACK = pytest.mark.parametrize("put_back", [_put_back_file, _put_back_home])


@PUT_BACK
def test_a_copy_taken_while_a_database_was_made_does_not_destroy_it_later(
    kept: Kept, tmp_path: Path, put_back: Restore
) -> None:
    now = _copied_while_shop_was_made(kept, tmp_path / "copy")
    put_back(kept, tmp_path / "copy")
    assert kept.databases.find("shop") is None
    reconciled = kept.command()
    assert reconciled is not None
    assert kept.destroyed == []
    assert [one.subject for one in reconciled.closed] == ["shop"]
    assert kept.remembered() == now
    assert kept.command() is None


@PUT_BACK
def test_without_an_operation_in_it_a_copy_is_corrected_too(
    kept: Kept, tmp_path: Path, put_back: Restore
) -> None:
    kept.add("old", image_id="01")
    kept.add("gone", image_id="02")
    kept.command()
    _copy_home(kept, tmp_path / "copy")
    kept.databases.remove("gone")
    kept.volumes.remove("gone")
    del kept.cluster.images[1]
    kept.databases.change("old", user="another")
    kept.add("new", image_id="03")
    kept.command()
    now = kept.remembered()
    put_back(kept, tmp_path / "copy")
    reconciled = kept.command()
    assert reconciled is not None
    assert kept.remembered() == now
    assert reconciled.plan.names(reconciled.plan.removed) == ["gone"]


def test_a_copy_that_is_the_newest_state_is_left_as_it_is(kept: Kept, tmp_path: Path) -> None:
    kept.add("shop")
    kept.command()
    kept.begin("other")
    _copy_home(kept, tmp_path / "copy")
    _put_back_file(kept, tmp_path / "copy")
    assert kept.command() is None
    assert kept.destroyed == ["volume"]  # nobody made anything since: it is undone as ever


def test_the_cluster_is_asked_only_when_the_state_may_have_been_put_back(kept: Kept) -> None:
    kept.add("shop")
    kept.command()
    assert kept.cluster.asked == 1
    for _ in range(3):
        kept.reopen()
        kept.databases.change("shop", user=kept.databases.get("shop").user + "x")
        kept.command()
    assert kept.cluster.asked == 1
    kept.begin("other")
    kept.command()
    assert kept.cluster.asked == 2


def test_nothing_is_undone_while_the_cluster_does_not_say(kept: Kept) -> None:
    kept.add("shop")
    kept.command()
    kept.begin("other")
    kept.cluster.is_down = True
    with pytest.raises(GrampusError, match="does not answer"):
        kept.settle()
    assert kept.destroyed == []
    kept.cluster.is_down = False
    kept.settle()
    assert kept.destroyed == ["volume"]


def test_found_older_only_at_an_operation_it_is_refused(kept: Kept) -> None:
    """As when the whole machine went back in time, and every file on it."""
    kept.add("shop")
    kept.command()
    kept.begin("other")
    newer = kept.generation.current().model_copy(update={"number": 99})
    kept.cluster.kept[f"grampus/{LAB}/generation"] = newer.model_dump_json()
    assert kept.watch.is_known()
    with pytest.raises(RefusedError, match="copy") as refused:
        kept.settle()
    assert refused.value.code == "state-older"
    assert kept.destroyed == []
    assert kept.command() is not None
    assert kept.journal.unfinished(LAB) == []


def test_a_second_state_of_the_lab_is_older_than_the_one_that_took_over(
    kept: Kept, tmp_path: Path
) -> None:
    kept.add("shop")
    kept.command()
    _copy_home(kept, tmp_path / "copy")
    kept.watch.take_over()
    _put_back_home(kept, tmp_path / "copy")
    assert kept.watch.ask() == "older"


def test_a_reconciliation_that_is_cut_off_is_done_again(kept: Kept, tmp_path: Path) -> None:
    now = _copied_while_shop_was_made(kept, tmp_path / "copy")
    _put_back_file(kept, tmp_path / "copy")
    assert not kept.watch.is_known()
    kept.rebuilding().reconcile()  # and the process dies
    kept.reopen()
    assert kept.command() is not None
    assert kept.remembered() == now


# -- state backup -------------------------------------------------------------------------------


def test_a_backup_is_private_and_whole_and_holds_no_open_operation(
    kept: Kept, tmp_path: Path
) -> None:
    kept.add("shop")
    kept.begin("other")
    file = tmp_path / "copy.db"
    assert back_up_state(kept.store, file) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    copy = Store(file)
    assert OperationJournal(copy, FakeClock()).unfinished(LAB) == []
    assert records_of_lab(copy, LAB) == records_of_lab(kept.store, LAB)
    copy.close()
    assert len(kept.journal.unfinished(LAB)) == 1
    assert [path.name for path in tmp_path.glob("*copy*")] == ["copy.db"]


def test_a_backup_that_is_put_back_is_always_compared_with_the_cluster(
    kept: Kept, tmp_path: Path
) -> None:
    kept.add("shop")
    kept.command()
    (tmp_path / "copy").mkdir()
    back_up_state(kept.store, tmp_path / "copy" / "state.db")
    now = kept.remembered()
    _put_back_file(kept, tmp_path / "copy")
    assert kept.command() is not None
    assert kept.remembered() == now


def test_a_backup_goes_over_no_file(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "there"
    file.write_text("somebody's")
    with pytest.raises(RefusedError, match="already"):
        back_up_state(kept.store, file)
    assert file.read_text() == "somebody's"


def test_a_backup_into_no_directory_fails_in_a_sentence(kept: Kept, tmp_path: Path) -> None:
    with pytest.raises(GrampusError, match="cannot be copied") as failed:
        back_up_state(kept.store, tmp_path / "nowhere" / "copy.db")
    assert failed.value.code == "state-backup"


# -- decisions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        (None, "current"),
        (Generation(state="a", number=4), "current"),
        (Generation(state="a", number=5), "current"),
        (Generation(state="a", number=6), "older"),
        (Generation(state="b", number=1), "older"),
    ],
)
def test_how_old_a_state_is(noted: Generation | None, expected: str) -> None:
    assert decide_age(Generation(state="a", number=5), noted) == expected


def test_a_state_of_an_older_release_begins_a_generation(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with sqlite3.connect(file) as older:
        older.execute("CREATE TABLE records (kind, lab, name, body, PRIMARY KEY (kind, lab, name))")
    older.close()
    grampus = Kept(tmp_path)
    assert grampus.generation.current().number == 1
    assert not grampus.watch.is_known()
    assert grampus.watch.ask() == "current"
    assert grampus.watch.is_known()
    grampus.store.close()


def test_a_state_in_memory_is_never_in_doubt(kept: Kept) -> None:
    assert StateGeneration(Store(None), kept.home.root).is_known(LAB)


def _stored(kind: str, name: str) -> StoredRecord:
    body = (volume(name) if kind == "volume" else database(name)).model_dump(mode="json")
    return StoredRecord(kind=kind, name=name, body=body)


def _image(name: str, **facts: object) -> FoundImage:
    known = {"pool": "databases", "id": "01", "size_bytes": 1 << 30, "in_trash": False}
    return FoundImage.model_validate(
        {**known, "name": f"db-{name}", "has_data": True, "noted": None, **facts}
    )


def test_a_record_whose_image_says_nothing_stays() -> None:
    existing = [_stored("volume", "shop"), _stored("database", "shop")]
    plan = decide_reconcile(LAB, [_image("shop")], existing, {})
    assert (plan.changed, plan.removed) == ([], [])


def test_a_record_whose_image_is_gone_goes() -> None:
    existing = [_stored("volume", "shop"), _stored("database", "shop")]
    plan = decide_reconcile(LAB, [_image("other")], existing, {})
    assert plan.removed == existing


def test_records_that_no_image_tells_of_stay() -> None:
    lab = StoredRecord(kind="lab", name="shop", body={"x": 1})
    plan = decide_reconcile(LAB, [], [lab], {})
    assert plan.removed == []


def test_what_was_left_on_a_lost_host_stays_until_it_is_cleared_away() -> None:
    """An earlier release noted none of it: an image that is silent of it proves nothing."""
    body = {
        "spec": database("shop").spec.model_dump(mode="json"),
        "left_at": "2026-11-22T05:00:00Z",
    }
    left = StoredRecord(kind="left-instance", name="h2/shop", body=body)
    known = [_stored("volume", "shop"), _stored("database", "shop")]
    silent = NotedRecords(lab=LAB, records=tuple(known)).model_dump_json()
    plan = decide_reconcile(LAB, [_image("shop", noted=silent)], [*known, left], {})
    assert plan.removed == []
    telling = NotedRecords(lab=LAB, records=(*known, left)).model_dump_json()
    plan = decide_reconcile(LAB, [_image("shop", noted=telling)], known, {})
    assert plan.changed == [left]
    assert plan.names(plan.changed) == ["shop"]
