"""Encryption at rest on a real cluster: nothing in clear is stored, and nothing is lost by it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.system.command_line import KILLED, CommandLine
from tests.system.exerciser import DEVICE_FAILED, Exerciser
from tests.system.lab_machine import LabMachine
from tests.system.volumes import attach, attached_volume, unmount

SECRET = "a secret that nobody may find 8c1f"
# Whole pages of it: some of it lies in every sector that it was written to.
FILL = f'yes \'{SECRET}\' | head -c 4194304 >"$1/secret" && sync -f "$1/secret"'
# In a shell on a host: how many lines of what is stored hold it; 1 of `grep` means none.
COUNT_IN_IMAGE = 'rbd export --no-progress "$1" - | grep -a -c -F "$2"; true'
# The metadata in the first of the header's two copies: LUKS2 On-Disk Format Specification, 2.1.
READ_HEADER = 'rbd export --no-progress "$1" - 2>/dev/null | head -c 16384 | tail -c +4097'
COUNT_IN_OBJECTS = """
rados --pool "$1" --namespace "$2" ls | grep journal | while read -r object; do
    rados --pool "$1" --namespace "$2" get "$object" - | grep -a -F "$3"
done | wc -l
"""
MIB = 1024 * 1024
BLOCKS = 4096
HEADER_BYTES = 16 * MIB
DATABASE = ("--size", "1G", "--memory", "512M", "--cpus", "0.5", "--encrypt")
NAMES = ("enc", "enc-copy", "enc-new", "enc-replica")


def image_of(document: dict[str, Any]) -> str:
    return f"{document['pool']}/{document['image']}"


def secrets_in(machine: LabMachine, document: dict[str, Any]) -> dict[str, int]:
    """How often the secret is found in what is stored of a volume, in the cluster and on hosts."""
    namespace = document["image"].rpartition("/")[0]
    stored = machine.ok("sh", "-c", COUNT_IN_IMAGE, "sh", image_of(document), SECRET)
    journal = machine.ok("sh", "-c", COUNT_IN_OBJECTS, "sh", document["pool"], namespace, SECRET)
    directory = machine.data / "cache" / document["name"]
    log = machine.run("grep", "-a", "-r", "-c", "-F", SECRET, str(directory)).stdout
    in_log = sum(int(line.rpartition(":")[2]) for line in log.splitlines())
    return {"image": int(stored), "journal": int(journal), "log": in_log}


def header_of(machine: LabMachine, document: dict[str, Any]) -> Any:
    """What the LUKS2 header of the image says of itself."""
    text = machine.ok("sh", "-c", READ_HEADER, "sh", image_of(document))
    return json.loads(text.rstrip("\0"))


def keys_left(machine: LabMachine) -> list[str]:
    """Key files on the host, which shares its memory with all labs of this machine."""
    names = f"/dev/shm/grampus-{machine.tag}-*.key"
    return [*machine.ok("sh", "-c", f"ls {names} 2>/dev/null; true").split()]


@pytest.mark.parametrize(
    "write_path",
    [
        pytest.param("direct", marks=pytest.mark.exhaustive),
        pytest.param("journal", marks=pytest.mark.exhaustive),
        "cache",  # what it keeps beside the image, journal and all, lies in most places
    ],
)
def test_nothing_is_stored_in_clear(lab: CommandLine, write_path: str) -> None:
    machine = LabMachine(lab, "h1")
    options = ("--write-path", write_path, "--encrypt")
    with attached_volume(lab, "enc-volume", create=options) as document:
        machine.ok("sh", "-c", FILL, "sh", document["mount_path"])
        assert secrets_in(machine, document) == {"image": 0, "journal": 0, "log": 0}
        assert keys_left(machine) == []
        lab.ok("volume", "detach", "enc-volume")
        assert secrets_in(machine, document) == {"image": 0, "journal": 0, "log": 0}
        header = header_of(machine, document)
        (data,) = header["segments"].values()
        (slot,) = header["keyslots"].values()
        assert (data["encryption"], data["sector_size"]) == ("aes-xts-plain64", 4096)
        assert int(data["offset"]) == HEADER_BYTES
        # AES-256: XTS has two keys. The passphrase is random, so to derive a key from it is cheap.
        assert (slot["key_size"], slot["af"]["stripes"]) == (64, 4000)
        assert (slot["kdf"]["type"], slot["kdf"]["iterations"]) == ("pbkdf2", 1000)
        again = attach(lab, "enc-volume", "h1")
        assert machine.ok("head", "-n", "1", f"{again['mount_path']}/secret").strip() == SECRET


def test_master_key_is_rotated_under_a_volume_and_the_former_is_not_needed(
    lab: CommandLine,
) -> None:
    machine = LabMachine(lab, "h1")
    with attached_volume(lab, "enc-rotated", create=("--encrypt",)) as document:
        path = f"{document['mount_path']}/secret"
        machine.ok("sh", "-c", FILL, "sh", document["mount_path"])
        keys = lab.json("volume", "key", "show")
        former = next(key["id"] for key in keys["keys"] if key["current"])
        point = "master-key.rotate/seal/before=kill"
        assert lab.run("volume", "key", "rotate", failpoints=point).code == KILLED
        rotated = lab.json("volume", "key", "rotate")
        assert rotated["key"] != former
        assert (rotated["former"], rotated["key_not_here"]) == (0, [])
        assert rotated["resealed"] >= 1
        assert lab.json("volume", "key", "rotate", "--reseal")["resealed"] == 0
        assert machine.ok("head", "-n", "1", path).strip() == SECRET  # it was never let go
        file = Path(keys["directory"]) / f"{former}.key"
        away = file.with_suffix(".away")
        file.rename(away)
        try:
            lab.ok("volume", "detach", "enc-rotated")
            again = attach(lab, "enc-rotated", "h1")
            assert machine.ok("head", "-n", "1", f"{again['mount_path']}/secret").strip() == SECRET
        finally:
            away.rename(file)


def test_the_same_is_found_on_a_volume_that_is_not_encrypted(lab: CommandLine) -> None:
    """Or the test above could not fail."""
    machine = LabMachine(lab, "h1")
    with attached_volume(lab, "plain-volume", create=("--write-path", "journal")) as document:
        machine.ok("sh", "-c", FILL, "sh", document["mount_path"])
        assert secrets_in(machine, document)["journal"] > 0
        lab.ok("volume", "detach", "plain-volume")
        assert secrets_in(machine, document)["image"] > 0


@pytest.mark.parametrize(
    "write_path", [pytest.param("direct", marks=pytest.mark.exhaustive), "journal"]
)
def test_random_operations_agree_with_a_model(
    lab: CommandLine, exerciser_program: Path, write_path: str
) -> None:
    create = ("--write-path", write_path, "--encrypt")
    with attached_volume(lab, "enc-bare", create=create) as document:
        machine = LabMachine(lab, "h1")
        unmount(machine, document)
        exerciser = Exerciser(machine, exerciser_program)
        limits = ("--operations", "2000", "--seconds", "4", "--workers", "4")
        place = ("--length", str(64 * MIB))
        # Also what begins and ends within a sector of the encryption.
        for path, options in (
            (document["export_path"], ("--direct", "--align", "1")),
            (document["device"], ("--direct",)),
        ):
            exerciser.ok("model", "--path", str(path), *options, *place, *limits)


@pytest.mark.parametrize(
    "write_path",
    [
        pytest.param("direct", marks=pytest.mark.exhaustive),
        pytest.param("journal", marks=pytest.mark.exhaustive),
        "cache",
    ],
)
def test_killed_volumed_loses_no_flushed_write(
    lab: CommandLine, exerciser_program: Path, write_path: str
) -> None:
    create = ("--write-path", write_path, "--encrypt")
    with attached_volume(lab, "enc-killed", create=create) as document:
        exerciser = Exerciser(LabMachine(lab, "h1"), exerciser_program)
        path = f"{document['mount_path']}/ledger"
        options = ("--direct", "--length", str(16 * MIB))
        with exerciser.ledger("enc-killed", path, *options) as ledger:
            ledger.start()
            ledger.wait_for_more(300)
            lab.ok("lab", "fault", "kill-daemon", "volumed-enc-killed")
            assert ledger.end(timeout_s=30).code == DEVICE_FAILED
            attach(lab, "enc-killed", "h1")
            verified = ledger.verify()
            assert (verified["blocks"], verified["faults"]) == (BLOCKS, 0)
            assert verified["flushed_writes"] > 20


def test_user_has_the_size_asked_for_also_once_it_has_grown(lab: CommandLine) -> None:
    machine = LabMachine(lab, "h1")
    with attached_volume(lab, "enc-grown", create=("--encrypt",)) as document:
        for size_bytes in (512 * MIB, 1024 * MIB):
            lab.ok("volume", "resize", "enc-grown", "--size", f"{size_bytes // MIB}M")
            device = machine.ok("blockdev", "--getsize64", document["device"])
            assert (
                int(device) == size_bytes == lab.json("volume", "show", "enc-grown")["size_bytes"]
            )
            info = machine.ok("rbd", "info", "--format", "json", image_of(document))
            assert f'"size":{size_bytes + HEADER_BYTES}' in info.replace(" ", "")


def test_other_drivers_are_refused_and_say_why(lab: CommandLine) -> None:
    lab.ok("volume", "create", "enc-other", "--size", "512M", "--encrypt")
    try:
        refused = lab.run("volume", "attach", "enc-other", "--host", "h1", "--driver", "qsd")
        assert refused.code == 4
        assert "cannot decrypt" in " ".join(refused.stderr.split())
    finally:
        lab.ok("volume", "delete", "enc-other", "--yes")


@pytest.mark.parametrize(
    "when",
    [
        pytest.param("before", marks=pytest.mark.exhaustive),
        "after",
        pytest.param("undo", marks=pytest.mark.exhaustive),
    ],
)
def test_creation_killed_at_its_step_leaves_nothing(lab: CommandLine, when: str) -> None:
    point = f"volume.create/image/{when}=kill"
    create = ("volume", "create", "enc-cut", "--size", "512M", "--encrypt")
    killed = lab.run(*create, failpoints=point)
    if when != "undo":  # an undo is not reached by a creation that works
        assert killed.code == KILLED
    lab.run("volume", "delete", "enc-cut", "--yes")
    names = [volume["name"] for volume in lab.json("volume", "list")["volumes"]]
    assert "enc-cut" not in names
    lab.ok(*create)
    lab.ok("volume", "delete", "enc-cut", "--yes")


@contextmanager
def encrypted_database(lab: CommandLine) -> Iterator[str]:
    """An encrypted database with rows, on h1; what was made of it goes with it."""
    lab.ok("db", "create", NAMES[0], *DATABASE, "--host", "h1")
    try:
        lab.ok("db", "connect", NAMES[0], "-e", insert("CREATE DATABASE t; USE t; CREATE TABLE r"))
        yield NAMES[0]
    finally:
        for name in reversed(NAMES):
            lab.run("db", "delete", name, "--yes", "--now", "--with-replicas")
            lab.run("db", "trash", "empty", name, "--yes")


@pytest.fixture
def own_database(lab: CommandLine) -> Iterator[str]:
    """One for a single test, before those that share one."""
    with encrypted_database(lab) as name:
        yield name


@pytest.fixture(scope="module")
def database(lab: CommandLine) -> Iterator[str]:
    """One that tests share, and keep the rows of; the last of them deletes it."""
    with encrypted_database(lab) as name:
        yield name


def insert(create: str) -> str:
    return f"{create} (v TEXT) SELECT REPEAT('{SECRET}', 200) AS v FROM information_schema.COLUMNS"


def rows(lab: CommandLine, name: str) -> list[list[str]]:
    return lab.sql(name, "SELECT COUNT(*), SUM(CRC32(v)) FROM t.r")


@pytest.mark.exhaustive
def test_whatever_is_made_of_an_encrypted_database_is_encrypted(
    lab: CommandLine, own_database: str, tmp_path: Path
) -> None:
    shelf, machine, expected = tmp_path / "shelf", LabMachine(lab, "h1"), rows(lab, own_database)
    lab.ok("db", "snapshot", "create", own_database, "before")
    lab.ok("db", "clone", own_database, NAMES[1])
    lab.ok("db", "flatten", NAMES[1])
    lab.ok("db", "backup", "create", own_database, "--to", str(shelf))
    lab.ok("db", "restore", NAMES[2], "--latest", "--from", str(shelf))
    lab.ok("db", "connect", own_database, "-e", "DELETE FROM t.r")
    lab.ok("db", "snapshot", "rollback", own_database, "before", "--yes")
    lab.ok("db", "replica", "add", own_database, "--name", NAMES[3])
    for name in NAMES:
        assert rows(lab, name) == expected
        shown = lab.json("db", "show", name)
        assert shown["encryption"] == "luks2"
        lab.ok("db", "stop", name)
        stored = lab.json("volume", "show", name)
        assert secrets_in(machine, stored) == {"image": 0, "journal": 0, "log": 0}, name
        assert stored["master_key"]["is_here"] is True
        lab.ok("db", "start", name)
        assert rows(lab, name) == expected


def test_it_comes_back_from_the_trash_and_goes_on_elsewhere(
    lab: CommandLine, database: str
) -> None:
    expected = rows(lab, database)
    lab.ok("db", "delete", database, "--yes")
    lab.ok("db", "undelete", database)
    lab.ok("db", "move", database, "--host", "h2")
    lab.ok("db", "resize", database, "--size", "2G")
    assert rows(lab, database) == expected
    lab.ok("db", "verify", database)


def test_without_the_master_key_it_cannot_be_opened_and_can_be_deleted(
    lab: CommandLine, database: str, tmp_path: Path
) -> None:
    expected, kept = rows(lab, database), tmp_path / "volumes.key"
    keys = lab.home / "secrets" / "volume.keys"
    lab.ok("volume", "key", "export", "--to", str(kept))
    lab.ok("db", "stop", database)
    aside = tmp_path / "aside"
    shutil.move(keys, aside)
    try:
        refused = lab.run("db", "start", database)
        assert refused.code != 0
        assert "grampus volume key import" in " ".join(refused.stderr.split())
        assert lab.json("volume", "show", database)["master_key"]["is_here"] is False
        lab.ok("volume", "key", "import", str(kept))
        lab.ok("db", "start", database)
        assert rows(lab, database) == expected
        lab.ok("db", "stop", database)
        shutil.rmtree(keys)
        lab.ok("db", "delete", database, "--yes", "--now")
    finally:
        shutil.rmtree(keys, ignore_errors=True)
        shutil.move(aside, keys)
