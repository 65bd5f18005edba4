"""Who asks for a change, and by which process: its number alone may be another one's by now."""

from __future__ import annotations

import json
import os
import pwd
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
_BOOT_ID = "sys/kernel/random/boot_id"
# Fields of /proc/PID/stat behind the name in brackets, which may hold spaces (proc_pid_stat(5)).
_STATE, _START_TIME = 0, 19
_ENDED = frozenset("ZXx")


@dataclass(frozen=True)
class ProcessId:
    """A process of this machine; nothing else has all three."""

    pid: int
    started: int  # clock ticks after the machine's boot
    boot: str  # the machine's boot

    def is_alive(self, proc: Path = PROC) -> bool:
        """Whether it has not ended. Raises OSError when the kernel does not say."""
        return (proc / _BOOT_ID).read_text().strip() == self.boot and (
            find_start(self.pid, proc) == self.started
        )

    def request_end(self) -> bool:
        """Send it SIGTERM; False: it has ended. Raises OSError when this is not allowed."""
        try:
            held = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # From here on the number belongs to the process that is held.
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(held, signal.SIGTERM)
        except ProcessLookupError:
            return False
        finally:
            os.close(held)
        return True


@dataclass(frozen=True)
class OperationProcess:
    """The process that is at an operation."""

    id: ProcessId
    command: str  # its words, such as `db backup create`
    # Of a command in the background: what its starter knows it by.
    token: str = ""

    def render(self) -> str:
        """As the operation journal keeps it."""
        values = {**asdict(self.id), "command": self.command, "token": self.token}
        return json.dumps(values, sort_keys=True)


def parse_process(text: str) -> OperationProcess | None:
    """What `render` made; None: nothing, as from a release before 0.2."""
    if not text:
        return None
    found = json.loads(text)
    process = ProcessId(found["pid"], found["started"], found["boot"])
    return OperationProcess(process, found["command"], found["token"])


def find_start(pid: int, proc: Path = PROC) -> int | None:
    """When a process began, in ticks after the boot; None: it has ended. Raises OSError."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in _ENDED else int(fields[_START_TIME])


def observe_own_process(proc: Path = PROC) -> ProcessId:
    """This process."""
    return _observe_process(os.getpid(), proc)


@cache
def _observe_process(pid: int, proc: Path) -> ProcessId:
    # Kept by its pid: a fork is another process.
    return ProcessId(pid, find_start(pid, proc) or 0, (proc / _BOOT_ID).read_text().strip())


_LOGIN_UID = Path("/proc/self/loginuid")
# What the kernel says of a process that belongs to no login (include/linux/audit.h).
_NO_LOGIN = 2**32 - 1


def observe_actor() -> str:
    """The name of the user who runs this process, seen through sudo and su."""
    try:
        login = int(_LOGIN_UID.read_text(encoding="ascii"))
    except (OSError, ValueError):
        login = _NO_LOGIN
    return decide_actor(login, os.environ, os.getuid())


def decide_actor(login_uid: int, environment: Mapping[str, str], uid: int) -> str:
    """The login's user; else the one that sudo was called by; else the process's own.

    A number stands for a user without a name. Whoever is root can be called anything: this is a
    note for people, no evidence.
    """
    if login_uid != _NO_LOGIN:
        return _name_of(login_uid)
    return environment.get("SUDO_USER") or _name_of(uid)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
