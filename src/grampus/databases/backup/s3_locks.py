"""Object lock in S3: objects that nobody can delete for a while, also not with the keys.

A bucket with object lock keeps versions. Deleting an object there only hides it, so whoever deletes
has to remove its versions as well, and must ask first whether they are locked.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import botocore.exceptions

from grampus.core.errors import RefusedError

# The owner of the keys cannot shorten it either (Amazon S3, "Object Lock retention modes").
_MODE = "COMPLIANCE"
_NO_LOCK = ("ObjectLockConfigurationNotFoundError", "NoSuchObjectLockConfiguration")
# What services say that do not know object lock, or of a bucket that was made without it.
_NO_LOCKS_AT_ALL = (*_NO_LOCK, "InvalidRequest", "NotImplemented", "MethodNotAllowed")


class S3Locks:
    """The locks and versions of objects in one bucket; errors are botocore's."""

    def __init__(self, client: Any, bucket: str, url: str) -> None:
        self._client = client
        self._bucket = bucket
        self._url = url

    def require_possible(self) -> None:
        """Raise RefusedError with code `no-object-lock` where objects cannot be locked."""
        try:
            answer = self._client.get_object_lock_configuration(Bucket=self._bucket)
        except botocore.exceptions.ClientError as error:
            if _code(error) not in _NO_LOCKS_AT_ALL:
                raise
            answer = {}
        if answer.get("ObjectLockConfiguration", {}).get("ObjectLockEnabled") != "Enabled":
            raise RefusedError(
                f"The bucket {self._bucket} of {self._url} has no object lock.",
                "A bucket gets object lock when it is created: `aws s3api create-bucket "
                "--bucket NAME --object-lock-enabled-for-bucket`. Use such a bucket with "
                "--to.",
                code="no-object-lock",
            )

    def lock(self, key: str, until: datetime) -> None:
        """Lock the object until then; one that is locked for longer stays so."""
        found = self.locked_until(key)
        if found is None or found < until:
            self._client.put_object_retention(
                Bucket=self._bucket,
                Key=key,
                Retention={"Mode": _MODE, "RetainUntilDate": until.astimezone(UTC)},
            )

    def locked_until(self, key: str) -> datetime | None:
        """Until when the object is locked, which may be over; None: it is not."""
        try:
            answer = self._client.get_object_retention(Bucket=self._bucket, Key=key)
        except botocore.exceptions.ClientError as error:
            if _code(error) not in (*_NO_LOCKS_AT_ALL, "NoSuchKey", "404"):
                raise
            return None
        until: datetime | None = answer.get("Retention", {}).get("RetainUntilDate")
        return until

    def delete(self, key: str) -> None:
        """Delete the object, and all its versions where the bucket keeps them."""
        answer = self._client.delete_object(Bucket=self._bucket, Key=key)
        if answer.get("DeleteMarker") is True:
            for version in list(self._versions(key)):
                self._client.delete_object(Bucket=self._bucket, Key=key, VersionId=version)

    def _versions(self, key: str) -> Iterator[str]:
        """The versions of the object, then the marks of its deletions."""
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=self._bucket, Prefix=key
        )
        found = list(pages)
        for kind in ("Versions", "DeleteMarkers"):
            for page in found:
                for entry in page.get(kind, []):
                    if entry["Key"] == key:
                        yield entry["VersionId"]


def _code(error: botocore.exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
