"""Commands asked of the MONs as the JSON that they understand.

`ceph` asks the MONs for all commands that there are before each one, to tell which is meant: that
takes 0.2 to 0.3 s, of which the command itself takes 0.01 s. The prefixes and arguments are those
of `src/mon/MonCommands.h` in Ceph 20.2; `command_words.py` makes them of the words of `ceph`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from grampus.ceph.connecting import CONNECT
from grampus.ceph.ports import CommandOutput, CommandRunner

# As `ceph --connect-timeout`: librados would wait for five minutes.
CONNECT_TIMEOUT_S = 20
# A third argument: what the command takes is on the standard input. Code and words of a failure are
# those of `ceph`.
ASK_MONS = f"""
{CONNECT}
import errno, sys
given = sys.stdin.buffer.read() if len(sys.argv) > 3 else b""
with connect(client_mount_timeout="{CONNECT_TIMEOUT_S}") as cluster:
    ask = cluster.mgr_command if sys.argv[2] == "mgr" else cluster.mon_command
    code, said, complained = ask(sys.argv[1], given)
sys.stdout.write(said.decode())
if code:
    sys.stderr.write(f"Error {{errno.errorcode.get(-code, code)}}: {{complained}}\\n")
    sys.exit(-code)
"""


def ask_mons(
    runner: CommandRunner,
    prefix: str,
    *,
    check: bool = True,
    to: Literal["mon", "mgr"] = "mon",
    **arguments: Any,
) -> CommandOutput:
    """What the MONs, or the active MGR, answer to the command `prefix`, such as `auth rm`.

    Raises GrampusError when it is refused, when `check`.
    """
    argv = render_ask({"prefix": prefix, **arguments}, to)
    return runner.run(argv, timeout_s=CONNECT_TIMEOUT_S + 40, check=check)


def render_ask(
    document: Mapping[str, Any], to: Literal["mon", "mgr"], *, has_input: bool = False
) -> list[str]:
    """The command line that asks it, and takes input for it."""
    return ["python3", "-c", ASK_MONS, json.dumps(document), to, *(["input"] if has_input else [])]
