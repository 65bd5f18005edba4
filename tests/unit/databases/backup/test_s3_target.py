"""A bucket as a place of backups, with a service that answers as S3 does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.units import MIB
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.opening import ensure_bucket, open_target
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.s3_target import (
    PART_BYTES,
    S3Target,
    make_client,
    read_credentials,
)
from grampus.databases.backup.target import BackupTarget
from grampus.state.home import Home
from tests.fakes.s3 import FakeS3, serving

SECRET = "the-secret-key"
HOME = Home(Path("/nonexistent"))


@pytest.fixture(scope="module")
def running() -> Iterator[FakeS3]:
    with serving(FakeS3()) as made:
        yield made


@pytest.fixture
def service(running: FakeS3) -> FakeS3:
    """The service, empty: a client takes long to make, so one serves all tests."""
    fresh = FakeS3(endpoint=running.endpoint)
    vars(running).update(vars(fresh))
    return running


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_credentials(tmp_path_factory.mktemp("keys") / "credentials")


@pytest.fixture(scope="module")
def client(running: FakeS3, credentials: Path) -> Any:
    return make_client(place(running, credentials))


def write_credentials(file: Path, mode: int = 0o600) -> Path:
    file.write_text(f"[default]\naws_access_key_id = the-key\naws_secret_access_key = {SECRET}\n")
    file.chmod(mode)
    return file


def place(service: FakeS3, credentials: Path, url: str = "s3://backups/labs/one") -> TargetPlace:
    return TargetPlace(url=url, endpoint=service.endpoint, credentials=str(credentials))


def at(client: Any, url: str = "s3://backups/labs/one") -> BackupTarget:
    return S3Target(client, TargetPlace(url=url))


@pytest.fixture
def target(service: FakeS3, client: Any) -> BackupTarget:
    made = at(client)
    made.ensure_id()
    return made


def begin(target: BackupTarget, name: str, content: bytes) -> list[str]:
    """Write, and be interrupted before the end; what was there in parts by then."""
    found: list[str] = []
    with contextlib.suppress(KeyboardInterrupt), target.writing(name) as sink:
        sink.write(content)
        found = target.parts()
        raise KeyboardInterrupt
    return found


def test_id_stays_and_differs_from_that_of_others(service: FakeS3, client: Any) -> None:
    one, other = at(client), at(client, "s3://backups")
    assert one.find_id() is None
    assert one.ensure_id() == one.ensure_id() == one.find_id() != other.ensure_id()
    assert len(one.ensure_id()) == 8


def test_id_of_whoever_was_first_counts(service: FakeS3, client: Any) -> None:
    first, second = at(client), at(client)
    service.refused["get"] = (404, "NoSuchKey")  # each looks before the other has written
    with pytest.raises(TargetError):
        first.ensure_id()
    with pytest.raises(TargetError):
        second.ensure_id()
    del service.refused["get"]
    assert first.ensure_id() == second.ensure_id()
    assert len(service.objects) == 1


def test_contents_come_back_and_listings_turn_pages(service: FakeS3, target: BackupTarget) -> None:
    for number in range(8):
        target.put(f"shop/{number}/manifest.json", b"{}")
    target.put("shopping/1/manifest.json", b"{}")
    assert target.names("shop") == [f"shop/{number}/manifest.json" for number in range(8)]
    assert len(target.names()) == 9  # the place's id is none
    service.seen.clear()
    assert target.names("shop", after="shop/5/") == [f"shop/{n}/manifest.json" for n in (5, 6, 7)]
    assert service.seen == ["list"]  # one page, whatever was before
    assert target.read("shop/3/manifest.json") == b"{}"
    assert target.read("shop/9/manifest.json") is None
    with pytest.raises(NotFoundError), target.reading("shop/9/image.sealed"):
        pass


@pytest.mark.parametrize("size_bytes", [0, 5, PART_BYTES, 2 * PART_BYTES + 5])
def test_big_contents_go_up_in_parts(
    service: FakeS3, target: BackupTarget, size_bytes: int
) -> None:
    content = bytes(range(256)) * (size_bytes // 256 + 1)
    content = content[:size_bytes]
    with target.writing("shop/1/image.sealed") as sink:
        for start in range(0, size_bytes, MIB):
            sink.write(content[start : start + MIB])
    assert service.objects["backups/labs/one/shop/1/image.sealed"] == content
    assert service.seen.count("part") == (size_bytes + PART_BYTES - 1) // PART_BYTES * (
        size_bytes >= PART_BYTES
    )
    assert target.parts() == []
    with target.reading("shop/1/image.sealed") as source:
        assert source.read(10) == content[:10]


def test_what_was_not_written_to_the_end_is_aborted(service: FakeS3, target: BackupTarget) -> None:
    assert begin(target, "shop/1/image.sealed", bytes(PART_BYTES + 1)) == ["shop/1/image.sealed"]
    assert target.names("shop") == target.parts("shop") == []
    assert service.uploads == {}


def test_what_could_not_be_aborted_is_found_and_removed(
    service: FakeS3, target: BackupTarget
) -> None:
    service.refused["abort"] = (403, "AccessDenied")
    begin(target, "shop/1/image.sealed", bytes(PART_BYTES))
    del service.refused["abort"]
    assert target.parts() == ["shop/1/image.sealed"]
    target.remove("shop/1", first="manifest.json")
    assert target.parts() == []


def test_manifest_goes_first(service: FakeS3, target: BackupTarget) -> None:
    for name in ("shop/1/image.sealed", "shop/1/manifest.json", "shop/2/manifest.json"):
        target.put(name, b"x")
    service.refused["delete"] = (403, "AccessDenied")
    with pytest.raises(TargetError):
        target.remove("shop/1", first="manifest.json")
    del service.refused["delete"]
    target.remove("shop/1", first="manifest.json")
    assert target.names() == ["shop/2/manifest.json"]


REFUSALS = [
    ("put", (403, "AccessDenied"), "target-denied"),
    ("put", (403, "SignatureDoesNotMatch"), "target-denied"),
    ("put", (403, "QuotaExceeded"), "target-full"),
    ("put", (404, "NoSuchBucket"), "no-target"),
    ("put", (400, "Unheard"), "target-unusable"),
    ("part", (403, "QuotaExceeded"), "target-full"),
    ("complete", (400, "InvalidPart"), "target-unusable"),
]


@pytest.mark.parametrize(("verb", "answer", "code"), REFUSALS)
def test_refusals_are_told_and_leave_nothing(
    service: FakeS3, target: BackupTarget, verb: str, answer: tuple[int, str], code: str
) -> None:
    service.refused[verb] = answer
    size_bytes = 5 if verb == "put" else PART_BYTES
    with pytest.raises(TargetError) as caught, target.writing("shop/1/image.sealed") as sink:
        sink.write(bytes(size_bytes))
    assert caught.value.code == code
    assert target.names() == target.parts() == []


def test_service_that_does_not_answer(credentials: Path) -> None:
    with serving(FakeS3()) as gone:
        there = place(gone, credentials)
    with pytest.raises(TargetError) as caught:
        open_target(there, HOME).names()
    assert caught.value.code == "target-silent"


def test_bucket_is_made_once(service: FakeS3, credentials: Path) -> None:
    there = place(service, credentials, "s3://others")
    with pytest.raises(TargetError) as caught:
        open_target(there, HOME).ensure_id()
    assert caught.value.code == "no-target"
    ensure_bucket(there)
    ensure_bucket(there)
    assert service.buckets == {"backups", "others"}
    assert service.seen.count("create-bucket") == 1
    assert service.locking == set()


def test_bucket_is_made_with_object_lock(service: FakeS3, credentials: Path) -> None:
    ensure_bucket(place(service, credentials, "s3://locked"), object_lock=True)
    assert service.locking == {"locked"}


def test_one_content_is_taken_away(target: BackupTarget) -> None:
    target.put("shop/binlogs/a", b"1")
    target.put("shop/binlogs/ab", b"2")
    for _ in range(2):
        target.discard("shop/binlogs/a")
        assert target.names() == ["shop/binlogs/ab"]


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "shop/../../x"])
def test_name_that_leads_out_is_refused(target: BackupTarget, name: str) -> None:
    with pytest.raises(GrampusError, match="not a valid name"):
        target.read(name)


def test_secret_is_not_sent_nor_shown(
    service: FakeS3, target: BackupTarget, credentials: Path
) -> None:
    assert all("the-key" in header for header in service.authorizations)
    assert SECRET not in "".join(service.authorizations)
    assert SECRET not in repr(read_credentials(credentials))


def test_credentials_that_others_can_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="chmod 600"):
        read_credentials(write_credentials(tmp_path / "open", 0o644))


@pytest.mark.parametrize("text", ["", "[default]\n", "no ini file", "[default]\nregion = x\n"])
def test_file_without_keys(tmp_path: Path, text: str) -> None:
    file = write_credentials(tmp_path / "credentials")
    file.write_text(text)
    with pytest.raises(GrampusError) as caught:
        read_credentials(file)
    assert caught.value.code == "no-credentials"


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="--credentials"):
        read_credentials(tmp_path / "none")
