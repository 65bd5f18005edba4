"""The OpenSSH client: its command lines, and what its errors mean. Pure.

One connection to each host is kept and shared by all commands (`ControlMaster`): to open one takes
a tenth of a second, to share it a hundredth.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grampus.core.errors import GrampusError, RefusedError
from grampus.hosts.port import HostUnreachableError

CONNECT_TIMEOUT_S = 5
# A host that does not answer for so long is lost to its connection: 3 times 2 s.
ALIVE_EVERY_S, ALIVE_MISSES = 2, 3
# How long the shared connection waits for the next command.
PERSIST_S = 60


@dataclass(frozen=True)
class SshPlace:
    """Where a host is reached, and with which keys."""

    host: str  # its name, which its key is pinned to
    user: str
    address: str
    port: int
    identity: str | None
    known_hosts: Path  # the pinned keys of the site's hosts
    control_path: Path

    @property
    def destination(self) -> str:
        return f"{self.user}@{self.address}"


def ssh_argv(place: SshPlace, argv: Sequence[str], *, tty: bool = False) -> list[str]:
    """The command on this machine that runs `argv` as root on the host."""
    # `sudo -n` asks for no password: there is nobody to type one.
    elevated = list(argv) if place.user == "root" else ["sudo", "-n", "--", *argv]
    return [
        "ssh",
        *(["-tt"] if tty else ["-T"]),
        *_options(place, is_first=False),
        place.destination,
        shlex.join(elevated),
    ]


def first_contact_argv(place: SshPlace) -> list[str]:
    """The command that takes the host's key as it is and pins it; see ssh_config(5)."""
    return ["ssh", "-T", *_options(place, is_first=True), place.destination, "true"]


def end_connection_argv(place: SshPlace) -> list[str]:
    """The command that ends the shared connection."""
    return ["ssh", "-O", "exit", "-o", f"ControlPath={place.control_path}", place.destination]


def _options(place: SshPlace, *, is_first: bool) -> list[str]:
    checking = "accept-new" if is_first else "yes"
    sharing = (
        ["ControlMaster=no", "ControlPath=none"]
        if is_first
        else [
            "ControlMaster=auto",
            f"ControlPath={place.control_path}",
            f"ControlPersist={PERSIST_S}",
        ]
    )
    settings = [
        "BatchMode=yes",
        f"ConnectTimeout={CONNECT_TIMEOUT_S}",
        f"ServerAliveInterval={ALIVE_EVERY_S}",
        f"ServerAliveCountMax={ALIVE_MISSES}",
        f"StrictHostKeyChecking={checking}",
        f"UserKnownHostsFile={place.known_hosts}",
        "GlobalKnownHostsFile=/dev/null",
        "HashKnownHosts=no",
        # The key belongs to the host, whatever address it has.
        f"HostKeyAlias={place.host}",
        "LogLevel=ERROR",
        *sharing,
    ]
    options = ["-p", str(place.port)]
    if place.identity is not None:
        options += ["-i", place.identity]
        settings.append("IdentitiesOnly=yes")
    return [*options, *(word for setting in settings for word in ("-o", setting))]


def explain_ssh(place: SshPlace, said: str) -> GrampusError:
    """The error of a connection that ended, from what the client said of it."""
    last = said.strip().splitlines()[-1].strip() if said.strip() else ""
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said or "Host key verification failed" in said:
        return RefusedError(
            f"The SSH host key of {place.host} ({place.address}) is not the one that was pinned.",
            "Another machine may answer at this address. If the host was reinstalled, "
            f"`grampus host add {place.host} --new-host-key` pins its new key.",
            code="host-key",
        )
    if "Permission denied" in said or "Too many authentication failures" in said:
        return RefusedError(
            f"{place.host} does not let {place.destination} in: {last or 'permission denied'}.",
            f"Add the public key to ~/.ssh/authorized_keys of {place.user} on the host, or give "
            "another key with --identity.",
            code="ssh-denied",
        )
    if "a password is required" in said or "not allowed to execute" in said:
        return RefusedError(
            f"{place.user} may not become root on {place.host} without a password.",
            "Allow it with sudo (docs/guide/production.md shows the rule), or log in as root.",
            code="sudo-denied",
        )
    return HostUnreachableError(
        f"The host {place.host} cannot be reached: {last.rstrip('.') or 'the connection ended'}.",
        f"`ssh {place.destination} -p {place.port}` shows whether it answers. "
        f"`grampus host check {place.host}` looks at everything else.",
    )
