"""The key of an encrypted volume on a host: a file that is there while volumed reads it.

It lies in memory where the host has a tmpfs for it, so that it comes to no disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.hosts.machine_shared import SHARED_MEMORY, shared_memory_name
from grampus.hosts.port import Host

# Written under another name first: nobody ever reads half of it. The path is printed.
WRITE_KEY = """
umask 077
if [ "$(stat -f -c %T "$1" 2>/dev/null)" = tmpfs ]; then d=$1; else d=$2; mkdir -p "$d"; fi
cat >"$d/$3.new" && mv "$d/$3.new" "$d/$3" && printf %s "$d/$3"
"""


@contextmanager
def key_on_host(
    host: Host, tag: str, name: str, key: SecretStr | None
) -> Iterator[PurePosixPath | None]:
    """The file with the key of the volume `name`, for as long as the block runs; None without one.

    `tag` is that of home and lab: hosts of a lab share one machine's memory.
    """
    if key is None:
        yield None
        return
    script = ["sh", "-c", WRITE_KEY, "sh"]
    places = [str(SHARED_MEMORY), str(_directory(host)), _file_name(host, tag, name)]
    try:
        written = host.run([*script, *places], stdin=key.get_secret_value())
        yield PurePosixPath(written.stdout)
    finally:
        ensure_key_absent(host, tag, name)


def ensure_key_absent(host: Host, tag: str, name: str) -> None:
    """No key of the volume on the host, whatever was cut off before."""
    file = _file_name(host, tag, name)
    found = [directory / file for directory in (SHARED_MEMORY, _directory(host))]
    host.run(["rm", "-f", *(f"{path}{end}" for path in found for end in ("", ".new"))])


def _directory(host: Host) -> PurePosixPath:
    """Where the key is on a host that has no such memory."""
    return host.data_dir / "keys"


def _file_name(host: Host, tag: str, name: str) -> str:
    return shared_memory_name(tag, f"{host.name}-{name}.key")
