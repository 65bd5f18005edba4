"""Host images on a host: scripts for its sh, and what they say.

An image is unpacked in DIR/images/.new-ID and renamed once its digest has been compared, so
DIR/images/ID is whole unless somebody changed it. It is used while the root file system of a daemon
or a process is over it: such an image is neither replaced nor removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from grampus.hosts.process import run_command

# The code with which commands end when the image is not there.
MISSING_IMAGE = 66
# And those that would change an image which is used; stderr says by what.
IMAGE_IN_USE = 65
# An image is about 1 GB; a slow disk reads it in minutes.
DIGEST_TIMEOUT_S = 3600.0
# What must stay free beside an image that is copied: for logs and files of servers.
SPARE_BYTES = 256 * 1024**2

# Of each file its content, of each link its target: what a command of the image would read.
_DIGEST = """
set -eu
test -d "$1" || exit 66
cd "$1"
{ find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  find . -type l -printf '%p %l\\n' | LC_ALL=C sort; } | sha256sum | cut -d' ' -f1
"""
# Prints how many KiB are free where images are.
_FREE = """
at=$1/images; while ! test -d "$at"; do at=$(dirname "$at"); done
df -Pk "$at" | awk 'NR == 2 { print $4 }'
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
_DISCARD = 'rm -rf "$1/images/.new-$2"'
# Prints what uses the image IMAGE of DIR: daemons, and processes of commands.
_USERS = """
users() {
  awk -v dir="$dir" -v lower="lowerdir=$dir/images/$image/root," '
    index($5, dir "/daemons/") == 1 && index($NF ",", lower) {
      name = substr($5, length(dir "/daemons/") + 1)
      sub("/.*", "", name)
      print name
    }' /proc/self/mountinfo | sort -u
  find /proc -mindepth 2 -maxdepth 2 -name root -lname "$dir/roots/$image/root" 2>/dev/null |
    while read -r link; do
      # Drivers of volumes are daemons, named above.
      grep -q "grampus-$(basename "$dir")-" "${link%/root}/cgroup" 2>/dev/null ||
        echo "process ${link#/proc/}" | cut -d/ -f1
    done
}
"""
# Private first: what is unmounted here would be unmounted in DIR/data.
_DROP = """
drop() {
  root=$dir/roots/$image/root
  if mountpoint -q "$root"; then
    mount --make-rprivate "$root"
    umount -R -l "$root"
  fi
  rm -rf --one-file-system "$dir/roots/$image"
  # Renamed first: half removed, it must not pass for an image.
  if test -e "$dir/images/$image"; then
    rm -rf "$dir/images/.old-$image"
    mv "$dir/images/$image" "$dir/images/.old-$image"
  fi
  rm -rf --one-file-system "$dir/images/.old-$image"
}
"""
# An image under a mounted overlay must not change: the one that is replaced was changed by
# somebody, or is not whole. Commands that run there are not waited for: the next ones would run
# in the changed image, too.
_KEEP = f"""
set -eu
dir=$1 image=$2
{_USERS}{_DROP}
exec 9>"$dir/.lock"
flock 9
if test -e "$dir/images/$image"; then
  used=$(users | grep -v '^process ' || true)
  if test -n "$used"; then
    rm -rf "$dir/images/.new-$image"
    echo $used >&2
    exit {IMAGE_IN_USE}
  fi
  drop
fi
mv "$dir/images/.new-$image" "$dir/images/$image"
sync -f "$dir/images"
"""
# Under the lock of the preparation of roots: none is made of an image that goes.
_REMOVE_IMAGE = f"""
set -eu
dir=$1 image=$2
{_USERS}{_DROP}
test -d "$dir" || exit 0
exec 9>"$dir/.lock"
flock 9
rm -rf "$dir/images/.new-$image"
used=$(users)
if test -n "$used"; then echo $used >&2; exit {IMAGE_IN_USE}; fi
drop
"""
# The host's parts, its images, and what uses each image.
_OBSERVE = f"""
set -eu
dir=$1
{_USERS}
if test -e "$dir/data/host-parts"; then printf 'parts %s\\n' "$(cat "$dir/data/host-parts")"; fi
for place in "$dir"/images/*/root; do
  test -d "$place" || continue
  image=${{place%/root}} image=${{image##*/}}
  printf 'image %s\\n' "$image"
  users | while read -r one; do printf 'user %s %s\\n' "$image" "$one"; done
done
"""
# The text of the host's file of parts, which is there after a power cut.
_NOTE = """
set -eu
mkdir -p "$1/data"
printf '%s\\n' "$2" >"$1/data/.host-parts.new"
sync "$1/data/.host-parts.new"
mv "$1/data/.host-parts.new" "$1/data/host-parts"
sync "$1/data"
"""


@dataclass(frozen=True)
class FoundImages:
    """What a host has: the text of its parts file (None: there is none), and its images."""

    parts: str | None
    # By the id of the image: daemons by name, and processes as `process PID`.
    users: dict[str, tuple[str, ...]]


def digest_argv(root: str | PurePosixPath) -> list[str]:
    """The command that prints the digest of a tree of files; the same on every machine."""
    return ["sh", "-c", _DIGEST, "grampus-digest", str(root)]


def observe_digest(root: Path) -> str:
    """The digest of a tree of files on this machine."""
    return run_command(digest_argv(str(root)), timeout_s=DIGEST_TIMEOUT_S).stdout.strip()


def free_argv(directory: str) -> list[str]:
    """The command on the host that prints the KiB that are free where images are."""
    return ["sh", "-c", _FREE, "grampus-free", directory]


def unpack_argv(directory: str, image_id: str) -> list[str]:
    """The command on the host that takes an image (`root/` as tar) from its standard input."""
    return ["sh", "-c", _UNPACK, "grampus-unpack", directory, image_id]


def discard_argv(directory: str, image_id: str) -> list[str]:
    """The command on the host that removes a copy that is not whole."""
    return ["sh", "-c", _DISCARD, "grampus-discard", directory, image_id]


def keep_argv(directory: str, image_id: str) -> list[str]:
    """The command on the host that puts the image in its place once it is whole."""
    return ["sh", "-c", _KEEP, "grampus-keep", directory, image_id]


def remove_image_argv(directory: str, image_id: str) -> list[str]:
    """The command on the host that removes an image, and the root of commands in it."""
    return ["sh", "-c", _REMOVE_IMAGE, "grampus-drop", directory, image_id]


def observe_images_argv(directory: str) -> list[str]:
    """The command on the host whose output `parse_images` reads."""
    return ["sh", "-c", _OBSERVE, "grampus-parts", directory]


def note_parts_argv(directory: str, words: Sequence[str]) -> list[str]:
    """The command on the host that writes the words of its parts (`host_parts`)."""
    return ["sh", "-c", _NOTE, "grampus-note", directory, " ".join(words)]


def parse_images(text: str) -> FoundImages:
    """What `observe_images_argv` found."""
    parts: str | None = None
    users: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "parts":
            parts = rest
        elif kind == "image":
            users[rest] = ()
        elif kind == "user":
            image, _, user = rest.partition(" ")
            users[image] = (*users.get(image, ()), user)
    return FoundImages(parts, users)


def is_daemon(user: str) -> bool:
    """Whether a user of an image is a daemon; otherwise it is a process of a command."""
    return not user.startswith("process ")


def image_root(directory: str, image_id: str) -> str:
    """Where an image is on the host."""
    return f"{directory}/images/{image_id}/root"


def unfinished_root(directory: str, image_id: str) -> str:
    """Where it is until its digest has been compared."""
    return f"{directory}/images/.new-{image_id}/root"
