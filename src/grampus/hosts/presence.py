"""Whether a host has a file or directory, where a wrong answer would cost data.

`test -e` and `find` end with 1 both for a name that is not there and for a disk that fails or a
process that cannot be started. Only what the system says of a missing name is the answer *absent*.
"""

from __future__ import annotations

import errno
import os
from pathlib import PurePosixPath

from grampus.hosts.port import CommandFailedError, CommandResult, Host


def is_there(host: Host, path: PurePosixPath) -> bool:
    """Whether the host has it. Raises CommandFailedError when the host cannot say."""
    asked = host.run(["stat", "--format", "%F", str(path)], check=False)
    require_answer(host, asked)
    return asked.returncode == 0


def require_answer(host: Host, result: CommandResult) -> None:
    """Raise CommandFailedError unless the command succeeded, or said that there is no such file."""
    absent = (os.strerror(errno.ENOENT), os.strerror(errno.ENOTDIR))
    if result.returncode != 0 and not any(words in result.stderr for words in absent):
        raise CommandFailedError(host.name, result)
