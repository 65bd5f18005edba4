"""What is run on a host for its daemons and files: scripts for its sh, and for our root's Python.

Each may be repeated, and each says on stderr why it failed.
"""

from __future__ import annotations

from grampus.hosts.remote.image_scripts import MISSING_IMAGE

# As `mounts.ensure_unmounted`: who looks at a mount for an instant keeps it busy.
_UNMOUNT = """
unmount() {
  tries=0
  until said=$(LC_ALL=C umount "$1" 2>&1); do
    tries=$((tries + 1))
    case $said in *"target is busy"*) test $tries -ge 100 || { sleep 0.1; continue; } ;; esac
    echo "$said" >&2
    return 1
  done
}
"""
# DIRECTORY IMAGE_ROOT UNIT NOTE: the root file system of a daemon, and nothing left of its last
# run. It is over the image that the daemon starts from now, whichever one it was over before; NOTE
# says which that is. 66: the image is not there. Under the lock no image goes (`image_scripts`).
# ABSENT removes the service before the directory: without the directory, there is no service.
PREPARE_DAEMON = f"""{_UNMOUNT}
set -eu
if test -d "$1"; then
  systemctl stop "$3" 2>/dev/null || true
  systemctl reset-failed "$3" 2>/dev/null || true
fi
mkdir -p "$1"
exec 9>"$1/../../.lock"
flock 9
test -d "$2" || exit {MISSING_IMAGE}
if mountpoint -q "$1/root" && ! grep -q " $1/root .*[ ,]lowerdir=$2," /proc/self/mountinfo; then
  unmount "$1/root"
  rm -rf --one-file-system "$1/upper" "$1/work"
fi
mkdir -p "$1/upper" "$1/work" "$1/root"
mountpoint -q "$1/root" ||
  mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
printf '%s\\n' "$4" >"$1/image"
"""
# MAPPED, then the command of `units.render_start`. The service has binds of its own by then: those
# on the host would keep the volume's file system in use after the daemon's end.
START_DAEMON = f"""{_UNMOUNT}
mapped=$1
shift
code=0
"$@" || code=$?
for mount in "$mapped"/*; do ! mountpoint -q "$mount" || unmount "$mount"; done
exit $code
"""
# UNIT HOW DIRECTORY MAPPED
ABSENT = f"""{_UNMOUNT}
set -eu
if test "$2" = kill; then systemctl kill --signal=KILL "$1" 2>/dev/null || true; fi
systemctl stop "$1" 2>/dev/null || true
state=$(systemctl show --property=ActiveState --value "$1")
case $state in inactive|failed) ;; *) echo "$1 is $state still" >&2; exit 70 ;; esac
systemctl reset-failed "$1" 2>/dev/null || true
for mount in "$4"/*; do ! mountpoint -q "$mount" || unmount "$mount"; done
rm -rf --one-file-system "$4" "$4.note"
! mountpoint -q "$3/root" || unmount "$3/root"
rm -rf --one-file-system "$3"
"""
# OWNER UID GID, then SOURCE PLACE again and again. Prints the process that holds a user namespace
# with these maps for a minute; 3: this machine makes none, and why.
MAP_BINDS = (
    _UNMOUNT
    + """
set -eu
maps() { printf '0 0 1\\n%s %s 1\\n' "$1" "$2"; }
owner=$1 uid=$2 gid=$3
shift 3
unshare --user sleep 60 </dev/null >/dev/null 2>&1 &
holder=$!
own=$(readlink /proc/self/ns/user) tries=0
while other=$(readlink "/proc/$holder/ns/user") && test "$other" = "$own"; do
  tries=$((tries + 1))
  test $tries -lt 100 || break
  sleep 0.02
done
if test -z "${other:-}" || test "$other" = "$own"; then echo "unshare: it failed" >&2; exit 3; fi
maps "$owner" "$uid" > "/proc/$holder/uid_map"
maps "$owner" "$gid" > "/proc/$holder/gid_map"
while test $# -gt 0; do
  while mountpoint -q "$2"; do unmount "$2"; done
  if test -d "$1"; then mkdir -p "$2"; else mkdir -p "$(dirname "$2")"; touch "$2"; fi
  mount --bind "$1" "$2"
  shift 2
done
echo "$holder"
"""
)
# MAPPED
UNMAP_BINDS = f"""{_UNMOUNT}
for mount in "$1"/*; do ! mountpoint -q "$mount" || unmount "$mount"; done
"""
MEMORY_IN_USE, NOT_RUNNING = 75, 76
# UNIT MEMORY PROPERTY... ; what the kernel can give back of the memory in use is not counted (anon
# of version 2 of control groups, total_rss of version 1).
LIMIT = f"""
set -eu
unit=$1 memory=$2
shift 2
shown=$(systemctl show --property=ActiveState --property=ControlGroup "$unit")
case $shown in *ActiveState=inactive*|*ActiveState=failed*) exit {NOT_RUNNING} ;; esac
if test -n "$memory"; then
  group=${{shown#*ControlGroup=}}
  group=${{group%%
*}}
  for stat in "/sys/fs/cgroup$group/memory.stat" "/sys/fs/cgroup/memory$group/memory.stat"; do
    test -r "$stat" || continue
    used=$(awk '$1 == "anon" || $1 == "total_rss" {{ print $2 }}' "$stat")
    test "${{used:-0}}" -lt "$memory" || exit {MEMORY_IN_USE}
  done
fi
exec systemctl set-property --runtime "$unit" "$@"
"""
# UNIT LINES
LOG = """
journalctl --sync 2>/dev/null || true
exec journalctl --quiet --no-pager --output=cat --lines="$2" --unit="$1" \\
  _SYSTEMD_UNIT="$1" 2>/dev/null
"""
# PATH MODE UID GID, the content on stdin: replaced atomically, and there after a power cut.
WRITE_FILE = """
import os, sys
path, mode, uid, gid = sys.argv[1], int(sys.argv[2], 8), int(sys.argv[3]), int(sys.argv[4])
directory = os.path.dirname(path)
os.makedirs(directory, exist_ok=True)
part = f"{directory}/.{os.path.basename(path)}.{os.urandom(8).hex()}"
number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
try:
    with os.fdopen(number, "wb") as stream:
        stream.write(sys.stdin.buffer.read())
        os.fchmod(number, mode)
        os.fchown(number, uid, gid)
        stream.flush()
        os.fsync(number)
    os.replace(part, path)
except BaseException:
    os.unlink(part)
    raise
place = os.open(directory, os.O_RDONLY)
os.fsync(place)
os.close(place)
"""
# PATH: `+` and the text, or `-`: there is none.
READ_FILE = """
import sys
try:
    with open(sys.argv[1], encoding="utf-8", errors="replace", newline="") as stream:
        sys.stdout.write("+" + stream.read())
except (FileNotFoundError, NotADirectoryError):
    sys.stdout.write("-")
"""


def parse_file(output: str) -> str | None:
    """What READ_FILE found; None: there is no such file."""
    return output[1:] if output.startswith("+") else None
