"""A volume behind its write journal: what a flush acknowledged survives its daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import CommandLine
from tests.system.endurance import REPEATS
from tests.system.exerciser import DEVICE_FAILED, Exerciser, VolumeLedger
from tests.system.journal_pairs import count_by_object, slots_prefix
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attach, attached_volume, unmount

MIB = 1024 * 1024
LEDGER_OPTIONS = ("--direct", "--length", str(16 * MIB))
BLOCKS = 4096
JOURNAL = ("--write-path", "journal")
NAME = "journaled"


@dataclass(frozen=True)
class Journaled:
    """A volume with write path `journal`, and the exerciser on each of two hosts."""

    lab: CommandLine
    exercisers: dict[str, Exerciser]

    def attached(self, host: str = "h1") -> dict[str, Any]:
        """The volume's document, attached to `host`, which `journal` serves."""
        document = attach(self.lab, NAME, host)
        assert document["write_path"] == "journal"
        return document

    def live(self) -> dict[str, Any]:
        live: dict[str, Any] = self.lab.json("volume", "show", NAME)["live"]
        return live

    def ledger(self, name: str, document: dict[str, Any]) -> VolumeLedger:
        path = f"{document['mount_path']}/{name}"
        return self.exercisers[document["host"]].ledger(name, path, *LEDGER_OPTIONS)

    def metadata(self, key: str) -> str:
        shown = self.lab.json("volume", "show", NAME)
        image = f"{shown['pool']}/{shown['image']}"
        said = self.exercisers["h1"].machine.ok("rbd", "image-meta", "get", image, key)
        return said.strip()


@pytest.fixture(scope="module")
def journaled(lab: CommandLine, exerciser_program: Path) -> Iterator[Journaled]:
    """The volume, for all tests of this file."""
    exercisers = {
        host: Exerciser(LabMachine(lab, host), exerciser_program) for host in ("h1", "h2")
    }
    with attached_volume(lab, NAME, create=JOURNAL):
        yield Journaled(lab, exercisers)


def test_random_operations_agree_with_a_model(lab: CommandLine, exerciser_program: Path) -> None:
    with attached_volume(lab, "bare-journaled", create=JOURNAL) as document:
        machine = LabMachine(lab, "h1")
        unmount(machine, document)
        exerciser = Exerciser(machine, exerciser_program)
        limits = ("--operations", "4000", "--seconds", "4", "--workers", "6")
        for path, options in (
            (document["export_path"], ("--direct", "--align", "1")),
            (document["device"], ("--direct",)),
        ):
            place = ("--length", str(64 * MIB))
            exerciser.ok("model", "--path", str(path), *options, *place, *limits)
        exerciser.ok("zeros", "--path", str(document["export_path"]), "--offset", str(128 * MIB))


def test_killed_volumed_loses_no_flushed_write(journaled: Journaled) -> None:
    document = journaled.attached()
    with journaled.ledger("killed", document) as ledger:
        for _ in range(3 * REPEATS):
            ledger.start()
            ledger.wait_for_more(300)
            journaled.lab.ok("lab", "fault", "kill-daemon", f"volumed-{NAME}")
            assert ledger.end(timeout_s=30).code == DEVICE_FAILED
            # What was flushed is in the journal alone, as yet.
            assert journaled.metadata("grampus.journal") == "open"
            journaled.attached()
            verified = ledger.verify()
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
            assert verified["flushed_writes"] > 20
    journal = journaled.live()["journal"]
    assert (journal["state"], journal["retrying"]) == ("running", None)


def test_fenced_owner_adds_nothing_and_its_heir_has_all(journaled: Journaled) -> None:
    for old, new in (("h1", "h2"), ("h2", "h1")):
        document = journaled.attached(old)
        with ExitStack() as ledgers:
            fenced = ledgers.enter_context(journaled.ledger(f"fenced-{old}", document))
            fenced.start("--keep-trying")
            fenced.wait_for_more(200)
            journaled.lab.ok("volume", "fence", NAME, "--yes")
            fenced.wait_for_failure(timeout_s=30)
            taken = journaled.attached(new)
            path = f"{taken['mount_path']}/fenced-{old}"
            verified = fenced.verify(journaled.exercisers[new], path=path)
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
            heir = ledgers.enter_context(journaled.ledger(f"heir-{old}", taken))
            heir.start()
            heir.wait_for_more(200)
            fenced.request_end()
            assert fenced.end().document["failures"] > 0
            heir.stop()
            heir.verify()
            # Nothing of the old owner came in late.
            fenced.verify(journaled.exercisers[new], path=path)


def test_image_has_everything_once_detached_or_snapshotted(journaled: Journaled) -> None:
    document = journaled.attached()
    machine = journaled.exercisers["h1"].machine
    snapshot = f"{document['pool']}/{document['image']}@outside"
    with journaled.ledger("drained", document) as ledger:
        ledger.start()
        ledger.wait_for_more(200)
        machine.ok("rbd", "snap", "create", "--no-progress", snapshot)
        ledger.wait_for_more(200)  # writes go on after it
        ledger.stop()
        ledger.verify()
    flushed = f"{document['mount_path']}/flushed"
    machine.ok("dd", "if=/dev/urandom", f"of={flushed}", "bs=64K", "count=64", "conv=fsync")
    journaled.lab.ok("volume", "detach", NAME)
    assert journaled.metadata("grampus.journal") == "drained"
    # Of the small frames that it took, nothing is left in the OSDs' databases: a pair for each slot
    # says how far that was freed.
    pool, image = document["pool"], document["image"]
    prefix = slots_prefix(machine, pool, image)
    counts = count_by_object(machine, pool, [prefix.partition("/")[0]])
    slots = [count for name, count in counts.items() if name.startswith(prefix)]
    assert (max(slots), sum(slots) > 0) == (1, True), counts
    # Without the journal now: XFS on the image itself is whole, and holds what was written.
    journaled.lab.ok("volume", "set", NAME, "--write-path", "direct")
    direct = attach(journaled.lab, NAME, "h1")
    assert direct["write_path"] == "direct"
    assert Path(direct["mount_path"], "flushed").stat().st_size == 4 * MIB
    journaled.lab.ok("volume", "detach", NAME)
    machine.ok("rbd", "snap", "rm", "--no-progress", snapshot)
    journaled.lab.ok("volume", "set", NAME, "--write-path", "journal")


def test_unapplied_journal_is_replayed_before_the_image_is_used_directly(
    journaled: Journaled,
) -> None:
    document = journaled.attached()
    with journaled.ledger("replayed", document) as ledger:
        ledger.start()
        ledger.wait_for_more(300)
        journaled.lab.ok("volume", "fence", NAME, "--yes")
        assert ledger.end(timeout_s=30).code == DEVICE_FAILED
        assert journaled.metadata("grampus.journal") == "open"
        refused = journaled.lab.run("volume", "attach", NAME, "--host", "h1", "--driver", "qsd")
        assert refused.code == 4, refused.stderr
        replayed = journaled.lab.json("volume", "replay", NAME)
        assert replayed["replayed_frames"] > 0
        assert journaled.metadata("grampus.journal") == "drained"
        assert journaled.lab.json("volume", "replay", NAME)["replayed_frames"] == 0
        journaled.lab.ok("volume", "set", NAME, "--write-path", "direct")
        direct = attach(journaled.lab, NAME, "h1")
        verified = ledger.verify(path=f"{direct['mount_path']}/replayed")
        assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
        journaled.lab.ok("volume", "detach", NAME)
        journaled.lab.ok("volume", "set", NAME, "--write-path", "journal")


def test_volume_grows_under_a_writer(journaled: Journaled) -> None:
    document = journaled.attached()
    with journaled.ledger("growing", document) as ledger:
        ledger.start()
        journaled.lab.ok("volume", "resize", NAME, "--size", "1G")
        ledger.wait_for_more(100)
        large = f"{document['mount_path']}/large"
        journaled.exercisers["h1"].machine.ok("fallocate", "--length", "600M", large)
        ledger.stop()
        ledger.verify()


def test_deleted_volume_leaves_no_object_of_its_journal(lab: CommandLine) -> None:
    with attached_volume(lab, "short-lived", create=JOURNAL) as document:
        machine = LabMachine(lab, "h1")
        prefix = machine.ok(
            *("rbd", "image-meta", "get", f"{document['pool']}/{document['image']}"),
            "grampus.journal.objects",
        ).strip()
        assert prefix in machine.ok("rados", "--pool", document["pool"], "ls", "--all")
    assert prefix not in machine.ok("rados", "--pool", document["pool"], "ls", "--all")


def test_a_journal_that_lost_an_object_is_refused_until_that_is_accepted(lab: CommandLine) -> None:
    """INV-67: an object that was removed is no empty one."""
    name = "damaged"
    with attached_volume(lab, name, create=JOURNAL) as document:
        machine = LabMachine(lab, "h1")
        image = f"{document['pool']}/{document['image']}"
        machine.ok(
            "dd", "if=/dev/urandom", f"of={document['mount_path']}/kept", "bs=64K", "count=8"
        )
        machine.ok("sync", "-f", document["mount_path"])
        lab.ok("lab", "fault", "kill-daemon", f"volumed-{name}")
        prefix = machine.ok("rbd", "image-meta", "get", image, "grampus.journal.objects").strip()
        pool, *namespace, _ = image.split("/")
        rados = ["rados", "--pool", pool, *(["--namespace", namespace[0]] if namespace else [])]
        machine.ok(*rados, "rm", f"{prefix}.0000")
        lab.ok("volume", "detach", name)
        refused = lab.run("volume", "attach", name, "--host", "h1")
        assert "--accept-loss" in refused.stderr
        assert "slot 0000 of the journal is missing" in refused.stderr
        assert f"{prefix}.0000" not in machine.ok(*rados, "ls")
        lab.ok("volume", "detach", name)
        refused = lab.run("volume", "replay", name)
        assert "--accept-loss" in refused.stderr
        replayed = lab.json("volume", "replay", name, "--accept-loss")
        assert "slot 0000" in replayed["given_up"]
        assert lab.json("volume", "replay", name)["given_up"] is None


def test_no_command_shuts_out_a_client_that_ceph_does_not_hear(journaled: Journaled) -> None:
    lab, name = journaled.lab, "unheard"
    with attached_volume(lab, name, host="h3", create=JOURNAL) as document:
        lab.ok("volume", "snapshot", "create", name, "before")
        flushed = f"{document['mount_path']}/flushed"
        host = LabMachine(lab, "h3")
        host.ok("dd", "if=/dev/urandom", f"of={flushed}", "bs=64K", "count=64", "conv=fsync")
        content = host.ok("md5sum", flushed)
        lab.ok("lab", "fault", "partition", "h3", "--from", "ceph")
        try:
            for words in (("create", name, "torn"), ("delete", name, "before", "--yes")):
                refused = lab.run("volume", "snapshot", *words)
                assert refused.code == 4, refused.stderr
                assert "does not answer the client on that host" in refused.stderr
        finally:
            lab.ok("lab", "fault", "heal")
        machine = journaled.exercisers["h1"].machine
        assert document["client_address"] not in machine.ok("ceph", "osd", "blocklist", "ls")
        lab.ok("volume", "snapshot", "create", name, "after")
        listed = lab.json("volume", "snapshot", "list", name)["snapshots"]
        assert [snapshot["name"] for snapshot in listed] == ["before", "after"]
        assert lab.json("volume", "show", name)["client_address"] == document["client_address"]
        assert host.ok("md5sum", flushed) == content
        for snapshot in ("before", "after"):
            lab.ok("volume", "snapshot", "delete", name, snapshot, "--yes")
