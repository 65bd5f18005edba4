"""Credentials files of buckets on a site: those of schedules, for each of its machines.

A schedule names a file on the machine where it was made. Whichever machine carries it out needs the
keys in it, also when that one is lost. So its content is kept among the site's secrets, by the path
of the file, and beside it the certificates of authorities that it names; a machine that has a file
of that path uses its own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from grampus.core.errors import GrampusError
from grampus.core.units import KIB
from grampus.databases.backup.places import TargetPlace
from grampus.databases.backup.s3_credentials import CA_FILE_OPTION, find_profile
from grampus.state.home import Home
from grampus.state.secret_files import SecretFiles

_DIRECTORY = "backup.credentials"
_NAME_DIGITS = 16
# Of the certificates of a private authority. All those that a system trusts take four times as
# much, which is too much for one entry of the state; each machine has them.
_MOST_AUTHORITIES_BYTES = 64 * KIB


def reachable_place(home: Home, place: TargetPlace) -> TargetPlace:
    """The place with a credentials file that is on this machine, if the site has it."""
    copy = _find_copy(home, place)
    if copy is None or _file_of(place).exists() or not copy.exists():
        return place
    return place.model_copy(update={"credentials": str(copy)})


def share_credentials(home: Home, place: TargetPlace) -> None:
    """Keep the credentials of a schedule for the other machines of the site, as they are now.

    Nothing happens in a lab, or where the file cannot be read. Raises GrampusError when the others
    cannot have it.
    """
    copy = _find_copy(home, place)
    if copy is None:
        return
    file = _file_of(place)
    with contextlib.suppress(OSError):
        content = file.read_text(encoding="utf-8", errors="replace")
        authorities = _read_authorities(file, content)
        if authorities is not None:
            _write_changed(home, _authorities_of(copy), authorities)
            content = _name_authorities(content, _authorities_of(copy).name)
        _write_changed(home, copy, content)


def renew_credentials(home: Home, place: TargetPlace) -> None:
    """As `share_credentials`, for who uses them now and can do without sharing them."""
    with contextlib.suppress(GrampusError):
        share_credentials(home, place)


def forget_credentials(home: Home, place: TargetPlace, used: Iterable[TargetPlace]) -> None:
    """No machine but this one has the credentials any more, unless a place in use has them."""
    copy = _find_copy(home, place)
    if copy is not None and all(copy != _find_copy(home, one) for one in used):
        for file in (copy, _authorities_of(copy)):
            _files(home).remove(file)


def _find_copy(home: Home, place: TargetPlace) -> Path | None:
    if home.shared is None or place.credentials is None:
        return None
    name = sha256(place.credentials.encode()).hexdigest()[:_NAME_DIGITS]
    return home.secrets_dir(home.shared.site) / _DIRECTORY / name


def _authorities_of(copy: Path) -> Path:
    """The certificates of authorities that a copy names."""
    return copy.with_suffix(".ca")


def _read_authorities(file: Path, content: str) -> str | None:
    """What the file of authorities has that credentials name; None: none, or too much to share."""
    named = (find_profile(content) or {}).get(CA_FILE_OPTION)
    if not named:
        return None
    with contextlib.suppress(OSError), (file.parent / named).open("rb") as stream:
        found = stream.read(_MOST_AUTHORITIES_BYTES + 1)
        if len(found) <= _MOST_AUTHORITIES_BYTES:
            return found.decode(errors="replace")  # outside of certificates, there are remarks
    return None


def _name_authorities(content: str, name: str) -> str:
    """The same credentials with another file of authorities, in the same directory."""
    option = rf"(?m)^(\s*{CA_FILE_OPTION}\s*[=:]).*$"
    return re.sub(option, lambda found: f"{found[1]} {name}", content)


def _write_changed(home: Home, copy: Path, content: str) -> None:
    if not copy.exists() or copy.read_text() != content:
        _files(home).write(copy, content)


def _file_of(place: TargetPlace) -> Path:
    return Path(place.credentials or "")


def _files(home: Home) -> SecretFiles:
    assert home.shared is not None  # noqa: S101 - `_find_copy` has found it so
    return SecretFiles(home.secrets_dir(home.shared.site), home.shared)
