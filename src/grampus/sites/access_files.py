"""The files by which a site's cluster is reached: ceph.conf and the key of Grampus."""

from __future__ import annotations

import configparser
from pathlib import Path

from grampus.core.errors import UsageError, suggest_file
from grampus.sites.cluster_access import CONF_FILE, keyring_name, render_conf
from grampus.state.home import write_atomically


def read_access(conf_file: Path, keyring_file: Path, user: str) -> dict[str, str]:
    """What `write_access` writes, by file name.

    Raises UsageError when one of the user's files is absent or not what it should be.
    """
    conf, keyring = _read(conf_file, "--conf"), _read(keyring_file, "--keyring")
    section = find_key_section(keyring, user)
    if section is None:
        raise UsageError(
            f"{keyring_file} has no key of client.{user}.",
            "Name the user of the keyring with --user, or give the keyring of that user.",
            code="wrong-keyring",
        )
    return {CONF_FILE: render_conf(conf, user), keyring_name(user): section}


def write_access(directory: Path, conf_file: Path, keyring_file: Path, user: str) -> None:
    """ceph.conf and the keyring in a directory that only root reads. Raises as `read_access`."""
    files = read_access(conf_file, keyring_file, user)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    for name, text in files.items():
        write_atomically(directory / name, text.encode(), mode=0o600)
    for other in directory.glob(keyring_name("*")):
        if other.name not in files:
            other.unlink()


def has_access(directory: Path, user: str) -> bool:
    """Whether `write_access` has written there."""
    return all((directory / name).is_file() for name in (CONF_FILE, keyring_name(user)))


def _read(file: Path, option: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{option}: the file {file} does not exist.",
            suggest_file(
                file,
                "Copy ceph.conf and a keyring from a host of the cluster, then give their paths.",
            ),
            code="no-such-file",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UsageError(
            f"{option}: the file {file} cannot be read: {why}.",
            "Check its permissions and its content.",
            code="unreadable-file",
        ) from None


def find_key_section(keyring: str, user: str) -> str | None:
    """The keyring of `client.USER` alone: a file may have keys of others, too."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        # Ceph indents the lines of a section with tabs, which mean a continuation here.
        parser.read_string("\n".join(line.strip() for line in keyring.splitlines()))
    except configparser.Error:
        return None
    key = parser.get(f"client.{user}", "key", fallback="").strip().strip('"')
    return f"[client.{user}]\n\tkey = {key}\n" if key else None
