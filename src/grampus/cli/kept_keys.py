"""What commands about keys share: listed by id, written to a file, taken from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grampus.core.errors import NotFoundError, RefusedError, UsageError, suggest_file
from grampus.state.home import Home, write_atomically
from grampus.state.keys import KeptKeys, KeyT


def key_entries(keys: KeptKeys[KeyT]) -> list[dict[str, Any]]:
    """The keys that are here, as JSON documents that hold no secret."""
    current = keys.find_current()
    current_id = current.id if current is not None else None
    return [{"id": key_id, "current": key_id == current_id} for key_id in keys.own_ids()]


def require_current_key(keys: KeptKeys[KeyT], *, made_by: str) -> KeyT:
    """The key of what is new. Raises NotFoundError with the kind's code when there is none yet."""
    found = keys.find_current()
    if found is None:
        raise NotFoundError(f"There is no {keys.kind.what} yet.", made_by, code=keys.kind.code)
    return found


def export_key(keys: KeptKeys[KeyT], to: Path, key_id: str | None, *, made_by: str) -> KeyT:
    """Write a key to a new file of mode 0600: the one named, or that of what is new.

    `made_by` is a sentence: what makes a first key. Raises NotFoundError with the kind's code when
    there is none, RefusedError with code `file-exists`, UsageError for a directory, or for a file
    in one that is not there.
    """
    found = keys.get(key_id) if key_id is not None else require_current_key(keys, made_by=made_by)
    if to.is_dir():
        raise UsageError(
            f"{to.absolute()} is a directory.", ("Give the name of a new file in the directory.")
        )
    if to.exists():
        raise RefusedError(
            f"The file {to} already exists.", "Choose another name.", code="file-exists"
        )
    if not to.absolute().parent.is_dir():
        raise UsageError(
            f"The directory {to.absolute().parent} does not exist.", "Create the directory first."
        )
    write_atomically(to.absolute(), found.render().encode("ascii"), mode=0o600)
    return found


def import_key(keys: KeptKeys[KeyT], file: Path) -> KeyT:
    """Keep the key that an export wrote to `file`, beside those that are here.

    Raises UsageError with the kind's code when it holds none, UsageError for a directory,
    NotFoundError when there is no file.
    """
    exported = f"Give the file from `{keys.kind.command} export`."
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise NotFoundError(
            f"The file {file} does not exist.", suggest_file(file, exported)
        ) from None
    except IsADirectoryError:
        raise UsageError(f"{file.absolute()} is a directory.", exported) from None
    found = keys.parse(text)
    keys.add(found)
    return found


def describe_place(home: Home) -> str:
    """Where a key that was imported is now."""
    return "in this home" if home.shared is None else f"on the site {home.shared.site}"
