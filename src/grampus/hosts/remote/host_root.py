"""The directory in which commands run on a host, and the host image in it.

DIR/images/ID/root    host images
DIR/root              where commands run: an overlay, with the host's /proc, /sys and /dev
DIR/data              what Grampus keeps; it has the same path inside DIR/root
DIR/data/controller-epoch  the last epoch of a controller that gave a command (`epoch_guard`)
DIR/daemons/NAME      the root file system of a daemon
DIR/data/mapped/NAME  its files, as its own user sees them, while it is started
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from grampus.hosts.process import run_command
from grampus.hosts.remote.epoch_guard import GUARD, HostEpoch

# The code with which these commands end when the image is not there.
MISSING_IMAGE = 66
# An image is about 1 GB; a slow disk reads it in minutes.
DIGEST_TIMEOUT_S = 3600.0

# sh on the host itself. `mount --make-private` first: a bind of a shared parent would join that
# parent's peers. A command that mounts in DIR/data is seen on the host, and the other way round.
_PREPARE = """
set -eu
dir=$1 image=$2
test -d "$dir/images/$image/root" || { echo "the host image $image is missing" >&2; exit 66; }
mkdir -p "$dir/data/etc-ceph" "$dir/daemons" "$dir/root" "$dir/.upper" "$dir/.work"
chmod 0711 "$dir" "$dir/data"
exec 9>"$dir/.lock"
flock 9
if ! mountpoint -q "$dir/data"; then
  mount --bind "$dir/data" "$dir/data"
  mount --make-private "$dir/data"
  mount --make-shared "$dir/data"
fi
if ! mountpoint -q "$dir/root"; then
  mount -t overlay overlay -o \
    "lowerdir=$dir/images/$image/root,upperdir=$dir/.upper,workdir=$dir/.work" "$dir/root"
fi
for name in proc sys dev; do
  if ! mountpoint -q "$dir/root/$name"; then
    mount --rbind "/$name" "$dir/root/$name"
    mount --make-rslave "$dir/root/$name"
  fi
done
for name in run tmp; do
  mountpoint -q "$dir/root/$name" || mount -t tmpfs tmpfs "$dir/root/$name"
done
mkdir -p "$dir/root$dir/data" "$dir/root/etc/ceph"
mountpoint -q "$dir/root$dir/data" || mount --bind "$dir/data" "$dir/root$dir/data"
mountpoint -q "$dir/root/etc/ceph" || mount --bind "$dir/data/etc-ceph" "$dir/root/etc/ceph"
exec 9>&-
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
# Of each file its content, of each link its target: what a command of the image would read.
_DIGEST = """
set -eu
test -d "$1" || exit 66
cd "$1"
{ find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  find . -type l -printf '%p %l\\n' | LC_ALL=C sort; } | sha256sum | cut -d' ' -f1
"""
_UNPACK = """
set -eu
dir=$1 image=$2
umask 022
mkdir -p "$dir/images"
rm -rf "$dir/images/.new-$image"
mkdir "$dir/images/.new-$image"
tar -C "$dir/images/.new-$image" --numeric-owner -xpf -
sync -f "$dir/images/.new-$image"
"""
# An image under a mounted overlay must not change: the one that is replaced was changed by
# somebody, or is not whole. Private first: what is unmounted here would be unmounted in DIR/data.
_KEEP = """
set -eu
dir=$1 image=$2
if test -e "$dir/images/$image"; then
  tag=$(basename "$dir")
  units="grampus-$tag-*.service"
  running=$(systemctl list-units --plain --no-legend --state=active,activating "$units")
  if test -n "$running"; then
    rm -rf "$dir/images/.new-$image"
    echo "services run from the image: $running" >&2
    exit 65
  fi
  if mountpoint -q "$dir/root"; then
    mount --make-rprivate "$dir/root"
    umount -R -l "$dir/root"
  fi
  rm -rf "$dir/images/$image"
fi
mv "$dir/images/.new-$image" "$dir/images/$image"
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
    script = f'{_PREPARE}\nshift 2\n{guard}exec chroot "$dir/root" "$@"'
    return [*begin, script, "grampus-command", directory, image_id, *words, *argv]


def remove_argv(directory: str, tag: str) -> list[str]:
    """The command on the host that removes all that Grampus keeps there of one site."""
    return ["sh", "-c", _REMOVE, "grampus-remove", directory, tag]


def digest_argv(root: str | PurePosixPath) -> list[str]:
    """The command that prints the digest of a tree of files; the same on every machine."""
    return ["sh", "-c", _DIGEST, "grampus-digest", str(root)]


def observe_digest(root: Path) -> str:
    """The digest of a tree of files on this machine."""
    return run_command(digest_argv(str(root)), timeout_s=DIGEST_TIMEOUT_S).stdout.strip()


def unpack_argv(directory: str, image_id: str) -> list[str]:
    """The command on the host that takes an image (`root/` as tar) from its standard input."""
    return ["sh", "-c", _UNPACK, "grampus-unpack", directory, image_id]


def keep_argv(directory: str, image_id: str) -> list[str]:
    """The command on the host that puts the image in its place once it is whole."""
    return ["sh", "-c", _KEEP, "grampus-keep", directory, image_id]


def image_root(directory: str, image_id: str) -> str:
    """Where an image is on the host."""
    return f"{directory}/images/{image_id}/root"


def unfinished_root(directory: str, image_id: str) -> str:
    """Where it is until its digest has been compared."""
    return f"{directory}/images/.new-{image_id}/root"
