"""Commands inside the daemons of a host, as their users.

To ask systemd for the process of a daemon takes longer than most commands do, so the process that
was seen last is used again. The command itself checks that it is the daemon's still: its control
group has the name of the service (cgroups(7)), whoever has the number now.

Failure and recovery: a command that finds another process there has done nothing, and the daemon is
looked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from grampus.core.errors import GrampusError
from grampus.hosts.port import CommandResult, DaemonStatus

_LEFT, _LEFT_TEXT = 71, "grampus: another process"
# UNIT PID UID OWNER COMMAND... ; OWNER, unless empty, may open stdin by a name such as /dev/stdin.
# That is a pipe which root has made, and which only its owner may open.
_ENTER = f"""
unit=$1 pid=$2 uid=$3 owner=$4
shift 4
is_there=
{{
  while IFS= read -r group; do
    case $group in *"/$unit") is_there=yes ;; *"/$unit/"*) is_there=yes ;; esac
  done <"/proc/$pid/cgroup"
}} 2>/dev/null
if test -z "$is_there"; then echo '{_LEFT_TEXT}' >&2; exit {_LEFT}; fi
if test -n "$owner"; then chown "$owner" /proc/self/fd/0; fi
exec nsenter --target "$pid" --mount --root --wd=/ --setuid "$uid" --setgid "$uid" -- "$@"
"""


def enter_argv(unit: str, pid: int, uid: int, argv: Sequence[str], *, has_stdin: bool) -> list[str]:
    """The command in the host's root that runs `argv` in a process of the service `unit`.

    It does nothing if the process is another one: see `is_elsewhere`. With `has_stdin` it may open
    its stdin by name.
    """
    owner = str(uid) if has_stdin else ""
    return ["sh", "-c", _ENTER, "enter-daemon", unit, str(pid), str(uid), owner, *argv]


def is_elsewhere(result: CommandResult) -> bool:
    """Whether a command of `enter_argv` has done nothing, because the daemon has left."""
    return result.returncode == _LEFT and result.stderr.startswith(_LEFT_TEXT)


class InsideDaemons:
    """Runs commands inside the daemons of one host. Safe to be used by several threads.

    `observe` looks at one daemon, `unit` names its service, `where` the host in error sentences.
    """

    def __init__(
        self,
        observe: Callable[[str], DaemonStatus | None],
        unit: Callable[[str], str],
        where: str,
    ) -> None:
        self._observe = observe
        self._unit = unit
        self._where = where
        self._seen: dict[str, DaemonStatus] = {}

    def note(self, statuses: Iterable[DaemonStatus]) -> None:
        """What was seen of daemons. One whose process is not its user's yet is looked at again."""
        for status in statuses:
            if status.pid is not None and status.uid:
                self._seen[status.name] = status
            else:
                self._seen.pop(status.name, None)

    def argv(self, daemon: str, argv: Sequence[str], *, has_stdin: bool = False) -> list[str]:
        """The command of `enter_argv` for a daemon that is looked for now.

        Raises GrampusError with code `daemon-absent`.
        """
        status = self._observe(daemon)
        if status is None or status.pid is None:
            raise self._absent(daemon)
        return self._entering(status, argv, has_stdin=has_stdin)

    def run(
        self,
        daemon: str,
        argv: Sequence[str],
        *,
        has_stdin: bool,
        run: Callable[[list[str]], CommandResult],
    ) -> CommandResult:
        """What `run` returns for the command inside the daemon, where it is now.

        Raises GrampusError with code `daemon-absent`, and what `run` raises.
        """
        seen = self._seen.get(daemon)
        if seen is not None:
            result = run(self._entering(seen, argv, has_stdin=has_stdin))
            if not is_elsewhere(result):
                return result
        result = run(self.argv(daemon, argv, has_stdin=has_stdin))
        if is_elsewhere(result):
            raise self._absent(daemon)
        return result

    def _entering(self, status: DaemonStatus, argv: Sequence[str], *, has_stdin: bool) -> list[str]:
        assert status.pid is not None  # noqa: S101 - the callers have looked
        unit = self._unit(status.name)
        return enter_argv(unit, status.pid, status.uid or 0, argv, has_stdin=has_stdin)

    def _absent(self, daemon: str) -> GrampusError:
        return GrampusError(
            f"The daemon {daemon} does not run on {self._where}.", code="daemon-absent"
        )
