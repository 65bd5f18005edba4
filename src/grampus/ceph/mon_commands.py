"""Commands asked of the MONs as the JSON that they understand.

`ceph` asks the MONs for all commands that there are before each one, to tell which is meant: that
takes 0.2 to 0.3 s, of which the command itself takes 0.01 s. The prefixes and arguments are those
of `src/mon/MonCommands.h` in Ceph 20.2; `parse_command` makes them of the words of `ceph`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grampus.ceph.connecting import CONNECT
from grampus.ceph.ports import CommandOutput, CommandRunner

Target = Literal["mon", "mgr"]
# Signatures of the commands that Grampus uses, those of the MGR from `src/mgr/MgrCommands.h`: the
# names of their arguments. Endings mark one that takes all further words, and one whose digits the
# MONs want as a number.
_REST, _NUMBER = "...", "#"
_MON_COMMANDS: Mapping[str, str] = {
    "auth commit-pending": "entity",
    "auth get": "entity",
    "auth get-or-create": "entity caps...",
    "auth get-or-create-pending": "entity",
    "config dump": "",
    "config rm": "who name",
    "config set": "who name value",
    "df": "",
    "fsid": "",
    "health": "detail",
    "health mute": "code",
    "mgr module disable": "module",
    "mgr module enable": "module",
    "osd crush add-bucket": "name type",
    "osd crush rm": "name",
    "osd crush rule create-replicated": "name root type",
    "osd crush rule dump": "name",
    "osd crush rule ls": "",
    "osd crush rule rm": "name",
    "osd down": "ids...",
    "osd dump": "",
    "osd erasure-code-profile ls": "",
    "osd erasure-code-profile rm": "name",
    "osd erasure-code-profile set": "name profile...",
    "osd ls": "",
    "osd new": "uuid",
    "osd pool application enable": "pool app",
    "osd pool create": "pool pg_num# pgp_num# pool_type erasure_code_profile",
    "osd pool get": "pool var",
    "osd pool ls": "detail",
    "osd pool rm": "pool pool2",
    "osd pool set": "pool var val",
    "osd pool set-quota": "pool field val",
    "osd set": "key",
    "osd tree": "",
    "osd unset": "key",
    "quorum_status": "",
    "status": "",
    "version": "",
}
_MGR_COMMANDS: Mapping[str, str] = {
    "balancer off": "",
    "balancer on": "",
    "balancer status": "",
    "osd df": "",
    "osd purge": "id#",
    "pg dump": "dumpcontents...",
}
# `-i -`: what the command takes is on its standard input.
_INPUT = ("-i", "-")
_LONGEST_PREFIX = 4
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
    to: Target = "mon",
    **arguments: Any,
) -> CommandOutput:
    """What the MONs, or the active MGR, answer to the command `prefix`, such as `auth rm`.

    Raises GrampusError when it is refused, when `check`.
    """
    argv = render_ask({"prefix": prefix, **arguments}, to)
    return runner.run(argv, timeout_s=CONNECT_TIMEOUT_S + 40, check=check)


def render_ask(document: Mapping[str, Any], to: Target, *, has_input: bool = False) -> list[str]:
    """The command line that asks it, and takes input for it."""
    return ["python3", "-c", ASK_MONS, json.dumps(document), to, *(["input"] if has_input else [])]


@dataclass(frozen=True)
class ClusterCommand:
    """One command: for whom, and its document."""

    to: Target
    document: dict[str, Any]
    has_input: bool = False


def parse_command(words: Sequence[str]) -> ClusterCommand | None:
    """The command of `ceph WORDS`; None: only `ceph` itself knows how to ask it."""
    plain, options = _split_options(words)
    has_input = tuple(plain[-2:]) == _INPUT
    if has_input:
        plain = plain[:-2]
    for length in range(min(_LONGEST_PREFIX, len(plain)), 0, -1):
        prefix = " ".join(plain[:length])
        to: Target = "mon" if prefix in _MON_COMMANDS else "mgr"
        signature = (_MON_COMMANDS if to == "mon" else _MGR_COMMANDS).get(prefix)
        if signature is not None:
            arguments = _name_arguments(plain[length:], signature.split())
            if arguments is None:
                return None
            return ClusterCommand(to, {"prefix": prefix, **arguments, **options}, has_input)
    return None


def _split_options(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Words without options, and the options: `--format json`, `--name=value` or a switch."""
    plain: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word == "--format":
            options["format"] = next(rest)
        elif word.startswith("--"):
            name, separator, value = word[2:].partition("=")
            options[name.replace("-", "_")] = value if separator else True
        else:
            plain.append(word)
    return plain, options


def _name_arguments(words: Sequence[str], names: Sequence[str]) -> dict[str, Any] | None:
    """The words by the names of arguments; None: there are more of them, or no number."""
    arguments: dict[str, Any] = {}
    left = list(words)
    for name in names:
        if not left:
            break
        if name.endswith(_REST):
            arguments[name.removesuffix(_REST)], left = left, []
        elif name.endswith(_NUMBER):
            word = left.pop(0)
            if not word.isdecimal():
                return None
            arguments[name.removesuffix(_NUMBER)] = int(word)
        else:
            arguments[name] = left.pop(0)
    return None if left else arguments
