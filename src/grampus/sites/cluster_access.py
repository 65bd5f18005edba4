"""A site's cluster, reached from the machine that Grampus runs on.

No host of a site gets the key of Grampus: Ceph's commands for the cluster run here. This machine
needs no package of Ceph. The commands run inside a host image, in a mount namespace of their own
that ends with them; the image, which other hosts are made of, is read-only there. Processes and
the network are those of this machine.

Failure and recovery: nothing remains of a command that was killed; its mounts end with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from grampus.ceph.connecting import client_environment
from grampus.core.streams import ByteReader, ByteWriter
from grampus.hosts.command_server.client import CommandServers
from grampus.hosts.port import COMMAND_TIMEOUT_S, CommandResult
from grampus.hosts.process import read_command, write_command

WHERE = "this machine"
CONF_FILE = "ceph.conf"
# Arguments: the image's root, the directory that is /etc/ceph, and the command. MONs may be named
# by host names, so the image resolves names as this machine does. File systems of this machine
# leave the namespace: whoever unmounts one would find its device in use as long as the command
# runs. A process whose root directory is no mount (chroot) cannot do that.
ENTER_IMAGE = """
set -e
root=$1 conf=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
for directory in dev proc sys; do
    mount --rbind "/$directory" "$root/$directory"
done
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/tmp"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
for file in hosts resolv.conf; do
    if [ -f "/etc/$file" ] && [ -f "$root/etc/$file" ] && [ ! -h "$root/etc/$file" ]; then
        mount --bind "/etc/$file" "$root/etc/$file"
    fi
done
mount --bind "$conf" "$root/etc/ceph"
mount -o remount,bind,ro,nosuid,nodev,noexec "$root/etc/ceph"
mkdir "$root/run/former"
if pivot_root "$root" "$root/run/former" 2>/dev/null; then
    cd /
    umount -l /run/former
    rmdir /run/former
    exec "$@"
fi
exec chroot "$root" "$@"
"""
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/tmp",  # noqa: S108 - of the command's own mount namespace
}


def keyring_name(user: str) -> str:
    """The file name of the key of `client.USER`, as Ceph looks for it beside its ceph.conf."""
    return f"ceph.client.{user}.keyring"


def render_conf(conf: str, user: str) -> str:
    """The user's ceph.conf, which also says where the keyring is inside the image.

    The file may name another place, where the keyring is on the machine that it comes from.
    """
    section = f"[client.{user}]\nkeyring = /etc/ceph/{keyring_name(user)}\n"
    return conf if conf.endswith(section) else f"{conf.rstrip()}\n\n{section}"


class SiteClusterRunner:
    """A `CommandRunner` for one site's cluster. Safe to be used by several threads.

    `root` is the root directory of a host image, `directory` has ceph.conf and the keyring. The
    commands need root on this machine.
    """

    def __init__(self, root: Path, directory: Path, user: str) -> None:
        self._root = root
        self._directory = directory
        self._user = user
        self._servers = CommandServers(self._enter, where=WHERE)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
        check: bool = True,
    ) -> CommandResult:
        """See `CommandRunner`."""
        return self._servers.run(argv, stdin=stdin, timeout_s=timeout_s, check=check)

    def reading(self, argv: Sequence[str]) -> AbstractContextManager[ByteReader]:
        """See `CommandRunner`."""
        return read_command(self._enter(argv), where=WHERE, shown=argv)

    def writing(self, argv: Sequence[str]) -> AbstractContextManager[ByteWriter]:
        """See `CommandRunner`."""
        return write_command(self._enter(argv), where=WHERE, shown=argv)

    def answering(self, program: Sequence[str]) -> CommandServers:
        """What asks a program that answers requests, as `CommandServers` explains; the caller
        closes it."""
        return CommandServers(self._enter, where=WHERE, program=program)

    def prepare(self) -> None:
        """Start what the next command runs in: it starts beside whatever is done before."""
        self._servers.prepare()

    def close(self) -> None:
        """End what waits for further commands. A later command starts it again."""
        self._servers.close()

    def _enter(self, argv: Sequence[str]) -> list[str]:
        """The command on this machine that runs `argv` inside the image. No key is in it."""
        environment = {**_ENVIRONMENT, **client_environment(self._user)}
        return [
            *("unshare", "--mount", "--propagation", "slave"),
            *("sh", "-c", ENTER_IMAGE, "enter-image", str(self._root), str(self._directory)),
            *("env", "-i", *(f"{name}={value}" for name, value in environment.items())),
            *argv,
        ]
