"""Commands asked of the MONs as the JSON that they understand.

`ceph` asks the MONs for all commands that there are before each one, to tell which is meant: that
takes 0.2 to 0.3 s, of which the command itself takes 0.01 s. What a user waits for goes this way;
the prefixes and arguments are those of `src/mon/MonCommands.h` in Ceph 20.2.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from grampus.ceph.connecting import CONNECT
from grampus.ceph.ports import CommandOutput, CommandRunner

# As `ceph --connect-timeout`: librados would wait for five minutes.
CONNECT_TIMEOUT_S = 20
# Code and words of a failure are those of `ceph`.
ASK_MONS = f"""
{CONNECT}
import errno, sys
with connect(client_mount_timeout="{CONNECT_TIMEOUT_S}") as cluster:
    ask = cluster.mgr_command if sys.argv[2] == "mgr" else cluster.mon_command
    code, said, complained = ask(sys.argv[1], b"")
sys.stdout.write(said.decode())
if code:
    sys.exit(f"Error {{errno.errorcode.get(-code, code)}}: {{complained}}")
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
    document = json.dumps({"prefix": prefix, **arguments})
    argv = ["python3", "-c", ASK_MONS, document, to]
    return runner.run(argv, timeout_s=CONNECT_TIMEOUT_S + 40, check=check)
