"""Credentials files of S3 services, in the form that S3 clients share."""

from __future__ import annotations

import configparser
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grampus.core.errors import GrampusError, NotFoundError, RefusedError, suggest_file

# A file of authorities; a relative path counts from the directory of the credentials file.
CA_FILE_OPTION = "ca_bundle"
_OPEN_TO_OTHERS = 0o077


@dataclass(frozen=True)
class S3Credentials:
    """What a credentials file says."""

    access_key: str
    secret_key: str
    endpoint: str | None
    ca_file: str | None
    region: str

    def __repr__(self) -> str:
        return f"S3Credentials({self.endpoint})"


def read_credentials(file: Path) -> S3Credentials:
    """The keys in a file of the form that S3 clients share, of its first profile.

    Raises NotFoundError with code `no-credentials`, RefusedError with code `credentials-exposed`
    when others can read it, GrampusError with code `no-credentials` when it holds none.
    """
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"The credentials file {file} does not exist.",
            suggest_file(file, "Give the file with the keys of the S3 service (--credentials)."),
            code="no-credentials",
        ) from None
    except OSError as error:
        raise NotFoundError(
            f"The credentials file {file} cannot be read ({error.strerror}).",
            "Give the file with the keys of the S3 service (--credentials).",
            code="no-credentials",
        ) from None
    if mode & _OPEN_TO_OTHERS:
        raise RefusedError(
            f"Other users can read the credentials file {file}.",
            f"Run `chmod 600 {file}`, and change the keys if somebody may have read them.",
            code="credentials-exposed",
        )
    values = find_profile(text)
    if values is None:
        raise GrampusError(
            f"The file {file} has no keys of an S3 service.",
            "The file needs a profile with aws_access_key_id and aws_secret_access_key.",
            code="no-credentials",
        )
    authorities = values.get(CA_FILE_OPTION)
    return S3Credentials(
        access_key=values["aws_access_key_id"],
        secret_key=values["aws_secret_access_key"],
        endpoint=values.get("endpoint_url"),
        ca_file=str(file.parent / authorities) if authorities else None,
        region=values.get("region", "us-east-1"),
    )


def find_profile(text: str) -> Mapping[str, str] | None:
    """The first profile with keys of a credentials file; None: it has none."""
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    with contextlib.suppress(configparser.Error):
        parser.read_string(text)
    for section in parser.sections():
        values = parser[section]
        if "aws_access_key_id" in values and "aws_secret_access_key" in values:
            return values
    return None
