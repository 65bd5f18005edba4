"""The controller's epoch on a host: a host obeys no earlier one than it has seen.

The first command of a later epoch waits until no command of an earlier one runs, then records its
epoch; a lock keeps other commands from beginning meanwhile. A command is known by the variable
GRAMPUS_CONTROLLER, which its whole process tree inherits. Services of systemd do not have it.
"""

from __future__ import annotations

from dataclasses import dataclass

# What a command says that is not obeyed; its exit code is 68.
SUPERSEDED = "is superseded by the controller epoch"
# What a command says that cannot tell whether it is to be obeyed; its exit code is 69.
UNDECIDED = "the controller epoch is not known:"
_VARIABLE = "GRAMPUS_CONTROLLER"
# DIR TAG NUMBER ID FORCE are variables here. The lock is released when the shell becomes the
# command: it must not keep the next controller waiting for as long as the command takes.
GUARD = f"""
exec 9>>"$dir/.epoch-lock"
flock 9
file=$dir/data/controller-epoch known=0 holder=
if test -s "$file"; then read -r known holder <"$file" || true; fi
test -z "$force" || known=0
case $known in
  ''|*[!0-9]*) echo "{UNDECIDED} $file is damaged" >&2; exit 69 ;;
esac
if test "$known" -gt "$number" ||
    {{ test "$known" -eq "$number" && test -n "$holder" && test "$holder" != "$id"; }}; then
  echo "epoch $number {SUPERSEDED} $known" >&2
  exit 68
fi
if test "$known" -lt "$number"; then
  own="{_VARIABLE}=$tag:$number:$id" tries=0
  while :; do
    left=
    for found in $(cd /proc && grep -lsz "^{_VARIABLE}=$tag:" [0-9]*/environ || true); do
      if grep -qszxF "$own" "/proc/$found"; then continue; fi
      kill -KILL "${{found%/environ}}" 2>/dev/null || continue
      left=yes
    done
    test -n "$left" || break
    tries=$((tries + 1))
    if test $tries -gt 100; then
      echo "{UNDECIDED} commands of an earlier one do not end" >&2
      exit 69
    fi
    sleep 0.05
  done
  printf '%s %s\\n' "$number" "$id" >"$file.new"
  sync "$file.new"
  mv "$file.new" "$file"
  sync "$dir/data"
fi
exec 9>&-
"""


@dataclass(frozen=True)
class HostEpoch:
    """The epoch of whoever gives commands to the hosts of a site."""

    tag: str  # of the site
    number: int
    id: str  # of its holder

    def variable(self) -> str:
        """What the processes of this epoch's commands have in their environment."""
        return f"{_VARIABLE}={self.tag}:{self.number}:{self.id}"

    def words(self) -> list[str]:
        """The arguments TAG NUMBER ID."""
        return [self.tag, str(self.number), self.id]
