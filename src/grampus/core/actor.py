"""Who asked for a change: what the history of a database names."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

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
