"""A prefix in an S3 bucket as a place of backups.

Big contents go up in parts, of which one is held in memory; nobody sees a content before its last
part is there. What was begun and cut off is an unfinished upload, which `parts` finds and `remove`
aborts: most services bill it until then.
"""

from __future__ import annotations

import contextlib
import functools
import io
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import botocore.config
import botocore.exceptions
import botocore.session

from grampus.core.errors import GrampusError, NotFoundError
from grampus.core.streams import ByteReader, ByteWriter
from grampus.core.units import MIB
from grampus.databases.backup.errors import TargetError
from grampus.databases.backup.places import TargetPlace, split_s3_url
from grampus.databases.backup.s3_credentials import S3Credentials, read_credentials
from grampus.databases.backup.s3_locks import S3Locks
from grampus.databases.backup.target import TARGET_FILE, TARGET_ID_BYTES, parse_target_id

# An upload has at most 10,000 parts (Amazon S3, "Multipart upload limits"): the parts get bigger
# as they get more, so that 1 TiB fits and a small backup takes little memory.
PART_BYTES = 16 * MIB
_PARTS_OF_A_SIZE = 2000
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S = 10, 120
_ATTEMPTS = 4
_MISSING = ("404", "NoSuchKey", "NotFound")
_DENIED = ("403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
_FULL = ("QuotaExceeded", "InsufficientCapacity", "EntityTooLarge")


def open_bucket(place: TargetPlace) -> S3Target:
    """The place, without asking the service anything. Raises what `read_credentials` raises."""
    return S3Target(make_client(place), place)


def ensure_bucket(place: TargetPlace, *, object_lock: bool = False) -> None:
    """The bucket of the place, made if there is none. Raises TargetError."""
    client, (bucket, _) = make_client(place), split_s3_url(place.url)
    with _explaining(place.url):
        try:
            client.head_bucket(Bucket=bucket)
        except botocore.exceptions.ClientError as error:
            if _code(error) not in (*_MISSING, "NoSuchBucket"):
                raise
            client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=object_lock)


class S3Target:
    """A prefix in a bucket; a `BackupTarget`."""

    def __init__(self, client: Any, place: TargetPlace) -> None:
        """`client`: botocore's for S3."""
        self._client = client
        self._url = place.url
        self._bucket, self._prefix = split_s3_url(place.url)
        self._locks = S3Locks(client, self._bucket, place.url)

    @property
    def place(self) -> str:
        return self._url

    def ensure_id(self) -> str:
        found = self.find_id()
        if found is not None:
            return found
        # Another process may be first: then its id counts.
        return self._parse_id(
            self.claim(TARGET_FILE, secrets.token_hex(TARGET_ID_BYTES).encode() + b"\n")
        )

    def find_id(self) -> str | None:
        content = self.read(TARGET_FILE)
        return None if content is None else self._parse_id(content)

    def names(self, below: str = "", *, after: str = "") -> list[str]:
        found: list[str] = []
        begin = {"StartAfter": self._key(after)} if after else {}
        with self._explaining():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._below(below), **begin
            )
            for page in pages:
                found += [self._name(entry["Key"]) for entry in page.get("Contents", [])]
        # A service that does not know where to begin gives all, and is only slower.
        return sorted(name for name in found if name != TARGET_FILE and name > after)

    def parts(self, below: str = "") -> list[str]:
        return sorted({self._name(key) for key, _ in self._uploads(below)})

    def read(self, name: str) -> bytes | None:
        try:
            with self.reading(name) as source:
                return _read_all(source)
        except NotFoundError:
            return None

    def put(self, name: str, content: bytes) -> None:
        self._put(name, content)

    def claim(self, name: str, content: bytes) -> bytes:
        try:
            self._put(name, content, IfNoneMatch="*")
        except TargetError as error:
            if error.code != "target-taken":
                raise
        found = self.read(name)
        if found is None:
            raise TargetError(
                f"{self._url} does not return data that was just written.",
                "Choose a service with read-after-write consistency.",
            )
        return found

    @contextmanager
    def reading(self, name: str) -> Iterator[ByteReader]:
        with self._explaining():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
            except botocore.exceptions.ClientError as error:
                if _code(error) not in _MISSING:
                    raise
                raise NotFoundError(
                    f"{name} does not exist in {self._url}.", code="no-content"
                ) from None
        body = answer["Body"]
        try:
            yield _Body(body, self._url)
        finally:
            body.close()

    @contextmanager
    def writing(self, name: str) -> Iterator[ByteWriter]:
        upload = _Upload(self._client, self._bucket, self._key(name), self._url)
        try:
            yield upload
            upload.finish()
        finally:
            upload.abort_unless_finished()

    def discard(self, name: str) -> None:
        with self._explaining():
            self._locks.delete(self._key(name))

    def require_lockable(self) -> None:
        with self._explaining():
            self._locks.require_possible()

    def lock(self, names: Sequence[str], until: datetime) -> None:
        with self._explaining():
            for name in names:
                self._locks.lock(self._key(name), until)

    def locked_until(self, below: str) -> datetime | None:
        names = self.names(below)
        with self._explaining():
            found = [self._locks.locked_until(self._key(name)) for name in names]
        return max((until for until in found if until is not None), default=None)

    def remove(self, below: str, *, first: str | None = None) -> None:
        # Listed before anything is deleted: what there is, is what this call takes away.
        names = self.names(below)
        ordered = [f"{below}/{first}"] if first is not None else []
        with self._explaining():
            for name in [*ordered, *(name for name in names if name not in ordered)]:
                self._locks.delete(self._key(name))
            for key, upload_id in self._uploads(below):
                self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=key, UploadId=upload_id
                )

    def _parse_id(self, content: bytes) -> str:
        text = content.decode("ascii", errors="replace")
        return parse_target_id(text, f"{self._url}/{TARGET_FILE}")

    def _put(self, name: str, content: bytes, **conditions: str) -> None:
        with self._explaining():
            self._client.put_object(
                Bucket=self._bucket, Key=self._key(name), Body=content, **conditions
            )

    def _uploads(self, below: str) -> list[tuple[str, str]]:
        """Keys and ids of what was begun and not finished."""
        found: list[tuple[str, str]] = []
        with self._explaining():
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._below(below)
            )
            for page in pages:
                found += [(entry["Key"], entry["UploadId"]) for entry in page.get("Uploads", [])]
        return found

    def _explaining(self) -> contextlib.AbstractContextManager[None]:
        return _explaining(self._url)

    def _key(self, name: str) -> str:
        if name.startswith("/") or ".." in name.split("/"):
            raise GrampusError(
                f"{name!r} is not a valid name in a place of backups.", code="wrong-name"
            )
        return self._prefix + name

    def _below(self, below: str) -> str:
        return self._key(f"{below}/") if below else self._prefix

    def _name(self, key: str) -> str:
        return key.removeprefix(self._prefix)


class _Upload:
    """A content that goes up in parts; a short one goes up whole."""

    def __init__(self, client: Any, bucket: str, key: str, url: str) -> None:
        self._client = client
        self._names = {"Bucket": bucket, "Key": key}
        self._url = url
        self._id: str | None = None
        self._parts: list[dict[str, object]] = []
        self._held = bytearray()
        self._is_finished = False

    def write(self, data: bytes, /) -> object:
        self._held += data
        while len(self._held) >= (size := self._part_bytes()):
            self._send(bytes(self._held[:size]))
            del self._held[:size]
        return len(data)

    def finish(self) -> None:
        """The content is there from now on."""
        with _explaining(self._url):
            if self._id is None:
                self._client.put_object(**self._names, Body=bytes(self._held))
            else:
                if self._held:
                    self._send(bytes(self._held))
                self._client.complete_multipart_upload(
                    **self._names, UploadId=self._id, MultipartUpload={"Parts": self._parts}
                )
        self._is_finished = True

    def abort_unless_finished(self) -> None:
        """Take away what went up; what cannot be taken away now is found by `parts`."""
        if self._is_finished or self._id is None:
            return
        with contextlib.suppress(TargetError), _explaining(self._url):
            self._client.abort_multipart_upload(**self._names, UploadId=self._id)

    def _part_bytes(self) -> int:
        return PART_BYTES << (len(self._parts) // _PARTS_OF_A_SIZE)

    def _send(self, data: bytes) -> None:
        with _explaining(self._url):
            if self._id is None:
                self._id = self._client.create_multipart_upload(**self._names)["UploadId"]
            number = len(self._parts) + 1
            answer = self._client.upload_part(
                **self._names, UploadId=self._id, PartNumber=number, Body=data
            )
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})


class _Body:
    """What comes down, with errors as TargetError."""

    def __init__(self, body: Any, url: str) -> None:
        self._body = body
        self._url = url

    def read(self, size_bytes: int, /) -> bytes:
        with _explaining(self._url):
            return bytes(self._body.read(size_bytes))


def make_client(place: TargetPlace) -> Any:
    """botocore's client for the service of a place. Raises what `read_credentials` raises."""
    return _client_of(read_credentials(Path(place.credentials or "")), place.endpoint)


# Making one reads all that botocore knows of S3, which takes longer than what is then asked of the
# service. Several threads may use it (boto3 guide, "Low-level clients": they are thread safe).
@functools.lru_cache(maxsize=16)
def _client_of(credentials: S3Credentials, endpoint: str | None) -> Any:
    # Its own session: neither the environment nor a user's other profiles have a say.
    session = botocore.session.Session(profile=None)
    return session.create_client(
        "s3",
        region_name=credentials.region,
        endpoint_url=endpoint or credentials.endpoint,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        verify=credentials.ca_file or True,
        config=botocore.config.Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            s3={"addressing_style": "path"},
            # Checksums that not every service knows; what is kept here has its own.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


@contextmanager
def _explaining(url: str) -> Iterator[None]:
    try:
        yield
    except botocore.exceptions.ClientError as error:
        raise _explain(url, _code(error), str(error)) from error
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.HTTPClientError) as error:
        raise TargetError(
            f"The place of backups {url} does not answer ({type(error).__name__}).",
            "Check the endpoint, the network and the service, then try again.",
            code="target-silent",
        ) from error


def _explain(url: str, code: str, said: str) -> TargetError:
    """What to tell of an answer that is an error."""
    if code == "NoSuchBucket":
        return TargetError(
            f"The bucket of {url} does not exist.",
            "Create the bucket, or choose another one.",
            code="no-target",
        )
    if code in _DENIED:
        return TargetError(
            f"The service denies access to {url} ({code}).",
            "Check the keys in the credentials file, and their permissions for that bucket.",
            code="target-denied",
        )
    if code in _FULL:
        return TargetError(
            f"There is no space left in {url} ({code}).",
            "Raise the quota, or delete old backups (`--keep`, `grampus db backup delete "
            "BACKUP --from PLACE`), then try again.",
            code="target-full",
        )
    if code in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
        return TargetError(f"Another writer was first in {url}.", code="target-taken")
    return TargetError(
        f"The service of {url} refused: {said.rstrip('.')}.",
        "Try again, or ask the administrator of the service.",
    )


def _code(error: botocore.exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _read_all(source: ByteReader) -> bytes:
    sink = io.BytesIO()
    while data := source.read(MIB):
        sink.write(data)
    return sink.getvalue()
