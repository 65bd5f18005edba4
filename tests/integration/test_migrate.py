"""Volumes that move to another pool under a writer, and back; rotated keys (INV-48, INV-49)."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grampus.hosts.lab_host import HOST_INTERFACE
from tests.system.command_line import CommandLine
from tests.system.exerciser import DEVICE_FAILED, Exerciser
from tests.system.lab_machine import LabMachine, remove_pool
from tests.system.ledger import Ledger
from tests.system.machine import wait_for
from tests.system.volumes import attach, attached_volume

MIB = 1024 * 1024
BLOCKS = 2048
LEDGER_OPTIONS = ("--direct", "--length", str(8 * MIB))
POOL, THERE = "databases", "archive"
KILLED = 137
# On a machine that does nothing else it is about a second; the tests' has two cores for all.
LONGEST_PAUSE_MS = 15_000
CPUS = 2
# More than a queue of the daemon's takes; there is one for each CPU.
READERS_PER_CPU = 40
# What the daemon's queues can take at once, less a few.
CROWD = 28 * CPUS
# How soon all queues are full, if they are to be.
FILLS_WITHIN_S = 3.0


@contextmanager
def second_pool(machine: LabMachine) -> Iterator[None]:
    """A pool for images beside the lab's own; gone afterwards."""
    machine.ok("ceph", "osd", "pool", "create", THERE, "8", "8", "--autoscale-mode=off")
    machine.ok("rbd", "pool", "init", THERE)
    try:
        yield
        assert machine.ok("rbd", "namespace", "ls", THERE).strip() == ""
        left = machine.ok("rados", "-p", THERE, "--all", "ls")
        assert not re.search(r"rbd_data|rbd_header|grampus_journal", left), left
    finally:
        remove_pool(machine, THERE)


def pauses_ms(lab: CommandLine, name: str) -> list[int]:
    """How long requests waited in each exchange, by the log of the volume's daemon."""
    log = lab.home / "labs" / lab.lab / "hosts" / "h1" / "daemons" / f"volumed-{name}" / "log"
    return [int(held) for held in re.findall(r"held_ms=(\d+)", log.read_text(errors="replace"))]


@pytest.mark.parametrize(
    "write_path",
    [
        pytest.param("direct", marks=pytest.mark.exhaustive),
        "journal",
        pytest.param("cache", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.logs("operation.undone")
def test_a_writer_notices_a_short_pause_and_nothing_is_lost(
    lab: CommandLine, exerciser_program: Path, write_path: str
) -> None:
    machine = LabMachine(lab, "h1")
    exerciser = Exerciser(machine, exerciser_program)
    create = ("--write-path", write_path)
    with second_pool(machine), attached_volume(lab, "moving", create=create) as volume:
        path = f"{volume['mount_path']}/blocks"
        with exerciser.ledger("moving", path, *LEDGER_OPTIONS) as ledger:
            ledger.start()
            ledger.wait_for_more(100)
            lab.ok("volume", "snapshot", "create", "moving", "early")
            lab.ok("volume", "migrate", "moving", "--pool", THERE)
            ledger.wait_for_more(100)
            lab.ok("volume", "rotate", "moving")
            ledger.wait_for_more(100)
            # Cut off once it has gone over, and gone back with what was written since.
            arguments = ("volume", "migrate", "moving", "--pool", POOL)
            cut = lab.run(*arguments, failpoints="volume.migrate/switch/after=kill")
            assert cut.code in (-9, KILLED), cut.stderr
            ledger.wait_for_more(100)
            lab.ok("volume", "migrate", "moving", "--abort")
            ledger.wait_for_more(100)
            shown = lab.json("volume", "show", "moving")
            assert shown["pool"] == THERE
            assert shown["local_asides"] == []
            # Once more, finished by the command after the one that was cut off.
            cut = lab.run(*arguments, failpoints="volume.migrate/commit/before=kill")
            assert cut.code in (-9, KILLED), cut.stderr
            lab.ok("volume", "snapshot", "create", "moving", "late")
            ledger.wait_for_more(100)
            ledger.stop()
            verified = ledger.verify()
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
        pauses = pauses_ms(lab, "moving")
        assert len(pauses) == 5
        assert max(pauses) < LONGEST_PAUSE_MS, pauses
        print(f"{write_path}: requests waited {pauses} ms")  # noqa: T201 - with `pytest -s`
        shown = lab.json("volume", "show", "moving")
        assert shown["pool"] == POOL
        listed = lab.json("volume", "snapshot", "list", "moving")["snapshots"]
        assert [one["name"] for one in listed] == ["early", "late"]


@pytest.mark.logs("operation.finished")
def test_a_journal_in_another_pool_loses_nothing_and_goes_with_its_volume(
    lab: CommandLine, exerciser_program: Path
) -> None:
    machine = LabMachine(lab, "h1")
    exercisers = {
        host: Exerciser(LabMachine(lab, host), exerciser_program) for host in ("h1", "h2")
    }

    def pools_with_journals() -> list[str]:
        listed = {pool: machine.ok("rados", "-p", pool, "--all", "ls") for pool in (POOL, THERE)}
        return [
            pool
            for pool, text in listed.items()
            if any(namespace in line and "journal" in line for line in text.splitlines())
        ]

    create = ("--write-path", "journal", "--journal-pool", THERE)
    with second_pool(machine), attached_volume(lab, "apart", create=create) as volume:
        namespace = volume["image"].partition("/")[0]
        assert pools_with_journals() == [THERE]
        path = f"{volume['mount_path']}/blocks"
        with exercisers["h1"].ledger("apart", path, *LEDGER_OPTIONS) as ledger:
            ledger.start()
            ledger.wait_for_more(300)
            lab.ok("volume", "fence", "apart", "--yes")
            assert ledger.end(timeout_s=30).code == DEVICE_FAILED
            taken = attach(lab, "apart", "h2")
            path = f"{taken['mount_path']}/blocks"
            verified = ledger.verify(exercisers["h2"], path=path)
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
            more = ("if=/dev/urandom", f"of={path}.more", "bs=64K", "count=64", "conv=fsync")
            exercisers["h2"].machine.ok("dd", *more)
            lab.ok("lab", "fault", "kill-daemon", "volumed-apart")
            lab.ok("volume", "detach", "apart")
            # What was flushed is in the journal alone, and nobody has it open.
            move = ("volume", "set", "apart", "--journal-pool", POOL)
            cut = lab.run(*move, failpoints="volume.move-journal/remove/before=kill")
            assert cut.code in (-9, KILLED), cut.stderr
            assert pools_with_journals() == [THERE]
            attach(lab, "apart", "h2")
            assert pools_with_journals() == [POOL]
            verified = ledger.verify(exercisers["h2"], path=path)
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
            lab.ok("volume", "detach", "apart")
            lab.ok("volume", "set", "apart", "--journal-pool", THERE)
            assert attach(lab, "apart", "h1")["journal_pool"] == THERE
            assert pools_with_journals() == [THERE]


def held_bytes(machine: LabMachine, image: str) -> int:
    """What an image and its snapshots take."""
    listed = json.loads(machine.ok("rbd", "du", "--exact", "--format", "json", f"{POOL}/{image}"))
    return sum(one["used_size"] for one in listed["images"])


def leave_too_little(machine: LabMachine, image_bytes: int, beside_bytes: int = 150 * MIB) -> None:
    """Room in the other pool for all of the image, and for less beside it than a copy leaves free.

    So the pool is not full, whatever the copy writes until it ends.
    """
    quota_bytes = image_bytes + beside_bytes
    machine.ok("ceph", "osd", "pool", "set-quota", THERE, "max_bytes", str(quota_bytes))


def test_a_copy_into_a_pool_without_room_is_not_gone_on_with(
    lab: CommandLine, exerciser_program: Path
) -> None:
    machine = LabMachine(lab, "h1")
    exerciser = Exerciser(machine, exerciser_program)
    create = ("--write-path", "journal")
    with (
        second_pool(machine),
        attached_volume(lab, "filling", size="1G", create=create) as volume,
    ):
        path = f"{volume['mount_path']}/blocks"
        with exerciser.ledger("filling", path, *LEDGER_OPTIONS) as ledger:
            ledger.start()
            ledger.wait_for_more(100)
            lab.ok("volume", "snapshot", "create", "filling", "early")
            image_bytes = held_bytes(machine, volume["image"])
            arguments = ("volume", "migrate", "filling", "--pool", THERE)
            cut = lab.run(*arguments, failpoints="volume.migrate/copy/before=kill")
            assert cut.code in (-9, KILLED), cut.stderr
            ledger.wait_for_more(100)
            leave_too_little(machine, image_bytes)
            stopped = lab.run(*arguments)
            assert (stopped.code, "does not have enough space" in stopped.stderr) == (1, True), (
                stopped.stderr
            )
            assert f"Grampus returns the volume to '{POOL}'" in stopped.stderr, stopped.stderr
            assert lab.json("volume", "show", "filling")["pool"] == POOL
            ledger.wait_for_more(100)
            refused = lab.run(*arguments)
            assert refused.code == 4, refused.stderr
            ledger.stop()
            verified = ledger.verify()
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)


@contextmanager
def slow_network(lab: CommandLine, host: str) -> Iterator[None]:
    """What the host sends is bounded to 10 MB/s."""
    queue = ("ip", "netns", "exec", f"grampus-{lab.tag}-{host}", "tc", "qdisc")
    bounds = ("tbf", "rate", "80mbit", "burst", "256kb", "latency", "200ms")
    subprocess.run([*queue, "add", "dev", HOST_INTERFACE, "root", *bounds], check=True)
    try:
        yield
    finally:
        subprocess.run([*queue, "delete", "dev", HOST_INTERFACE, "root"], check=True)


@pytest.mark.exhaustive  # 2 GiB are written, copied in part, and copied back
def test_a_pool_that_fills_up_while_a_volume_is_copied_into_it_is_left_again(
    lab: CommandLine, exerciser_program: Path
) -> None:
    machine = LabMachine(lab, "h1")
    exerciser = Exerciser(machine, exerciser_program)
    with (
        second_pool(machine),
        attached_volume(lab, "filling", size="4G", create=("--write-path", "journal")) as volume,
    ):
        bulk = f"{volume['mount_path']}/bulk"
        write = ("dd", "if=/dev/urandom", f"of={bulk}", "bs=4M", "count=512", "conv=fsync")
        machine.ok(*write, timeout_s=900)
        path = f"{volume['mount_path']}/blocks"
        with exerciser.ledger("filling", path, *LEDGER_OPTIONS) as ledger:
            ledger.start()
            ledger.wait_for_more(100)
            image = volume["image"]
            # With a snapshot, what was written is in the image and not in its journal.
            lab.ok("volume", "snapshot", "create", "filling", "early")
            lab.ok("volume", "snapshot", "delete", "filling", "early", "--yes")
            image_bytes = held_bytes(machine, image)
            migrating = lab.start("volume", "migrate", "filling", "--pool", THERE)

            def is_copied() -> bool:
                status = machine.run("rbd", "status", "--format", "json", f"{THERE}/{image}")
                return status.code == 0 and '"executing"' in status.stdout

            wait_for(is_copied, "the copy to begin", timeout_s=120)
            # The cluster's figures are up to ten seconds old, and a copy counts objects, full or
            # not: a fast one would be over before they say what it has taken.
            with slow_network(lab, "h1"):
                leave_too_little(machine, image_bytes, beside_bytes=20 * MIB)
                wait_for(lambda: not is_copied(), "the copy to be stopped", timeout_s=240)
            _, said = migrating.communicate(timeout=900)
            assert (migrating.returncode, f"Grampus returns the volume to '{POOL}'" in said) == (
                1,
                True,
            ), said
            assert lab.json("volume", "show", "filling")["pool"] == POOL
            ledger.wait_for_more(100)
            ledger.stop()
            verified = ledger.verify()
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)


def test_an_exchange_ends_while_more_requests_wait_than_the_daemon_can_take(
    lab: CommandLine,
) -> None:
    machine = LabMachine(lab, "h1")
    with attached_volume(lab, "crowded", create=("--write-path", "journal")) as volume:
        crowd = subprocess.Popen(
            machine.argv(*_crowd(machine, "crowded", volume["mount_path"])),
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: _closed_on_a_crowd(machine, "crowded"), "full queues", timeout_s=90)
            # Meanwhile another volume comes and goes: nobody asks the device that cannot answer.
            with attached_volume(lab, "beside"):
                pass
            assert _held(machine, "crowded", "held") >= CROWD
            lab.ok("volume", "rotate", "crowded")
            assert _held(machine, "crowded", "held") < CROWD
        finally:
            crowd.terminate()
            crowd.wait(timeout=60)
        assert pauses_ms(lab, "crowded")[-1] < LONGEST_PAUSE_MS


def _crowd(machine: LabMachine, name: str, mount_path: str) -> list[str]:
    """Writes through the file system, and on each CPU more readers of the volume's file than the
    daemon's queue for that CPU can take.

    The kernel puts a request into the queue of the CPU that it comes from, and what comes through
    the loop device comes from whichever CPU its worker runs on: for minutes it may be the same.
    """
    return [
        *("fio", "--direct=1", "--bs=16k", "--time_based", "--runtime=150"),
        *("--name=writes", f"--directory={mount_path}", "--size=64M", "--rw=randwrite"),
        *("--ioengine=libaio", "--iodepth=64"),
        *("--name=reads", f"--filename={machine.data / 'exports' / name / 'image'}"),
        *("--size=64M", "--rw=randread", "--ioengine=psync", "--thread"),
        *(f"--numjobs={READERS_PER_CPU * CPUS}", f"--cpus_allowed=0-{CPUS - 1}"),
        "--cpus_allowed_policy=split",
    ]


def _closed_on_a_crowd(machine: LabMachine, name: str) -> bool:
    """Whether the image is closed, as a killed command leaves it, with every queue full.

    Where they do not fill, what was in flight at the closing had taken their place: then the image
    is open again.
    """
    if _held(machine, name, "in_flight") < CROWD:
        return False
    _control(machine, name, "close-image", "--limit-s", "100")
    deadline = time.monotonic() + FILLS_WITHIN_S
    while _held(machine, name, "held") < CROWD:
        if time.monotonic() > deadline:
            _control(machine, name, "open-image")
            return False
        time.sleep(0.1)
    return True


def _control(machine: LabMachine, name: str, *command: str) -> dict[str, Any]:
    """What a volume's daemon answers to a command."""
    socket = machine.data / "exports" / name / "control"
    program = str(machine.data / "bin" / "volumed")
    answer: dict[str, Any] = json.loads(
        machine.ok(program, "ctl", "--socket", str(socket), *command)
    )
    return answer


def _held(machine: LabMachine, name: str, what: str) -> int:
    return int(_control(machine, name, "status")[what])


def test_a_database_that_is_a_clone_moves_while_clients_write(lab: CommandLine) -> None:
    machine = LabMachine(lab, "h1")
    with second_pool(machine):
        lab.ok("db", "create", "roving", "--size", "1G", "--memory", "512M")
        try:
            with Ledger(lab, "roving") as ledger:
                for pool in (THERE, POOL):
                    lab.ok("db", "migrate", "roving", "--pool", pool)
                    assert lab.json("db", "show", "roving")["volume"]["pool"] == pool
                    ledger.wait_for_more()
                lab.ok("db", "rotate", "roving")
                ledger.wait_for_more()
            assert ledger.missing() == []
            lab.ok("db", "restart", "roving")
            assert ledger.missing() == []
        finally:
            lab.ok("db", "delete", "roving", "--yes", "--now")
