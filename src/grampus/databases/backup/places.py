"""Where backups may be kept, as it is written: a directory, or a prefix in an S3 bucket."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ConfigDict

from grampus.core.errors import UsageError
from grampus.core.models import Model

S3_SCHEME = "s3://"
# The rules for names that every S3 service takes (Amazon S3, "Bucket naming rules").
_S3_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[^/].*))?")


class TargetPlace(Model):
    """A place of backups, with what it takes to get in but a password."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str  # an absolute path, or s3://BUCKET or s3://BUCKET/PREFIX
    endpoint: str | None = None  # of the S3 service; None: the credentials file says it
    credentials: str | None = None  # the file with the keys of the S3 service

    @property
    def is_s3(self) -> bool:
        return self.url.startswith(S3_SCHEME)

    @property
    def word(self) -> str:
        """What kind of place it is, for people."""
        return "bucket" if self.is_s3 else "directory"

    def options(self, option: str) -> str:
        """As on a command line, such as `--from /srv/backups`."""
        words = [option, self.url]
        if self.endpoint is not None:
            words += ["--endpoint", self.endpoint]
        if self.credentials is not None:
            words += ["--credentials", self.credentials]
        return " ".join(words)


def parse_place(
    text: str, *, endpoint: str | None = None, credentials: str | None = None
) -> TargetPlace:
    """The place that a user names. Raises UsageError."""
    if not text.startswith(S3_SCHEME):
        if endpoint is not None or credentials is not None:
            raise UsageError(
                "--endpoint and --credentials need a bucket.",
                "Give a bucket as s3://BUCKET, or remove the options for a directory.",
            )
        return TargetPlace(url=str(Path(text).absolute()))
    match = _S3_URL.fullmatch(text.rstrip("/"))
    if match is None or "//" in (match["prefix"] or ""):
        raise UsageError(
            f"{text!r} does not contain a bucket name.",
            "Write it as s3://BUCKET or s3://BUCKET/PREFIX.",
        )
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"{endpoint!r} is not an endpoint.", "Write it as https://HOST:PORT.")
    if credentials is None:
        raise UsageError(
            "A bucket needs access keys.",
            "Give the file with the keys with --credentials. docs/guide/backup.md shows an "
            "example.",
        )
    file = str(Path(credentials).absolute())
    return TargetPlace(url=match.group(), endpoint=endpoint, credentials=file)


def split_s3_url(url: str) -> tuple[str, str]:
    """Bucket and prefix; the prefix is empty or ends with a slash."""
    bucket, _, prefix = url.removeprefix(S3_SCHEME).partition("/")
    return bucket, f"{prefix}/" if prefix else ""
