"""The directory in which commands run on a host.

DIR/images/ID/root    host images (`image_scripts`)
DIR/roots/ID/root     where commands run: an overlay, with the host's /proc, /sys and /dev. Drivers
                      of volumes run there too, so that of an older image stays while they do
DIR/data              what Grampus keeps; it has the same path inside each root
DIR/data/controller-epoch  the last epoch of a controller that gave a command (`epoch_guard`)
DIR/data/host-parts   what the host has of Grampus (`host_parts`)
DIR/daemons/NAME      the root file system of a daemon
DIR/data/mapped/NAME  its files, as its own user sees them, while it is started
"""

from __future__ import annotations

from collections.abc import Sequence

from grampus.hosts.remote.epoch_guard import GUARD, HostEpoch
from grampus.hosts.remote.host_parts import (
    HOST_FORMAT,
    LACKS_IMAGE,
    OLDEST_FORMAT,
    OTHER_PARTS,
    PARTS_FILE,
)
from grampus.hosts.remote.image_scripts import MISSING_IMAGE

# sh on the host itself. `mount --make-private` first: a bind of a shared parent would join that
# parent's peers. A command that mounts in DIR/data is seen on the host, and the other way round.
# `--rbind`: a root that is made while volumes are mounted has their mounts, too.
# The first lines ask for all of the mounts without a process: each command of Grampus asks each
# host. The last mount comes last, so that a preparation that was cut off is not taken for whole.
_PREPARE = f"""
set -eu
dir=$1 image=$2
root=$dir/roots/$image/root
format={OLDEST_FORMAT} version=- has=- rest=
if test -e "$dir/data/{PARTS_FILE}"; then
  read -r format version has rest <"$dir/data/{PARTS_FILE}" || true
fi
case $format in ''|*[!0-9]*) format=unknown ;; esac
if test "$format" = unknown || test "$format" -gt {HOST_FORMAT} ||
    test "$format" -lt {OLDEST_FORMAT}; then
  echo "{OTHER_PARTS} $format ${{version:--}}" >&2
  exit 71
fi
if ! test -d "$dir/images/$image/root"; then
  echo "{LACKS_IMAGE} $image $has ${{version:--}}" >&2
  exit {MISSING_IMAGE}
fi
mounted=
while read -r _ _ _ _ place _; do mounted="$mounted $place "; done </proc/self/mountinfo
ready=yes
for place in "$dir/data" "$root" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" \
    "$root$dir/data" "$root/etc/ceph"; do
  case $mounted in *" $place "*) ;; *) ready= ;; esac
done
if test -z "$ready"; then
mkdir -p "$dir/data/etc-ceph" "$dir/daemons" "$root" "$dir/roots/$image/upper" \
  "$dir/roots/$image/work"
chmod 0711 "$dir" "$dir/data"
exec 9>"$dir/.lock"
flock 9
if ! mountpoint -q "$dir/data"; then
  mount --bind "$dir/data" "$dir/data"
  mount --make-private "$dir/data"
  mount --make-shared "$dir/data"
fi
if ! mountpoint -q "$root"; then
  above=upperdir=$dir/roots/$image/upper,workdir=$dir/roots/$image/work
  mount -t overlay overlay -o "lowerdir=$dir/images/$image/root,$above" "$root"
fi
for name in proc sys dev; do
  if ! mountpoint -q "$root/$name"; then
    mount --rbind "/$name" "$root/$name"
    mount --make-rslave "$root/$name"
  fi
done
for name in run tmp; do
  mountpoint -q "$root/$name" || mount -t tmpfs tmpfs "$root/$name"
done
mkdir -p "$root$dir/data" "$root/etc/ceph"
mountpoint -q "$root$dir/data" || mount --rbind "$dir/data" "$root$dir/data"
mountpoint -q "$root/etc/ceph" || mount --bind "$dir/data/etc-ceph" "$root/etc/ceph"
exec 9>&-
fi
"""
# What ends with the host's place in its site. Refuses while a service of the site runs.
_REMOVE = """
set -eu
dir=$1 tag=$2
units="grampus-$tag-*.service"
running=$(systemctl list-units --plain --no-legend --state=active,activating "$units")
if test -n "$running"; then echo "services run: $running" >&2; exit 65; fi
for unit in $(systemctl list-units --all --plain --no-legend "grampus-$tag-*" | cut -d' ' -f1); do
  systemctl reset-failed "$unit" 2>/dev/null || true
done
# The newest mount first, until none is left.
for _ in 1 2 3; do
  awk -v dir="$dir" '$5 == dir || index($5, dir "/") == 1 { print $5 }' /proc/self/mountinfo |
    tac | while read -r mount; do umount "$mount" 2>/dev/null || umount -l "$mount" || true; done
done
if awk -v dir="$dir" 'index($5, dir "/") == 1 { found = 1 } END { exit !found }' \
  /proc/self/mountinfo; then echo "something is mounted below $dir still" >&2; exit 67; fi
systemctl stop "grampus-$tag.slice" 2>/dev/null || true
rm -rf --one-file-system "$dir"
rmdir "$(dirname "$dir")" 2>/dev/null || true
"""


def inside_argv(
    directory: str,
    image_id: str,
    argv: Sequence[str],
    epoch: HostEpoch | None = None,
    *,
    is_forced: bool = False,
) -> list[str]:
    """The command on the host that runs `argv` in its root, which is prepared first.

    With an `epoch` it runs only if the host has seen no later one; if `is_forced`, the host takes
    this one for the last whatever it has seen, and commands of all others are ended.
    """
    begin = ["sh", "-c"]
    words: list[str] = []
    guard = ""
    if epoch is not None:
        # In the environment of the shell itself: whoever takes over must see it from the start.
        begin = ["env", epoch.variable(), *begin]
        words = [*epoch.words(), "force" if is_forced else ""]
        guard = f"tag=$1 number=$2 id=$3 force=$4\nshift 4\n{GUARD}"
    script = f'{_PREPARE}\nshift 2\n{guard}exec chroot "$root" "$@"'
    return [*begin, script, "grampus-command", directory, image_id, *words, *argv]


def remove_argv(directory: str, tag: str) -> list[str]:
    """The command on the host that removes all that Grampus keeps there of one site."""
    return ["sh", "-c", _REMOVE, "grampus-remove", directory, tag]


def command_root(directory: str, image_id: str) -> str:
    """Where commands run on the host in this image."""
    return f"{directory}/roots/{image_id}/root"
