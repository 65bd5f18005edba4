"""From a definition to the command line that builds it; nothing here runs anything."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from grampus.lab.images.definition import ImageDefinition, ImageDirectory, ImageText, ImageUser

# Nobody reads manuals in a container: a tenth of the size, and the time to write it, saved.
# force-unsafe-io: a build that a power cut interrupts is thrown away anyway.
DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/lintian/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
)
# The timeout is for an archive that does not answer at all: 2 tries instead of a long silence.
APT_OPTIONS = (
    'Acquire::Languages "none"',
    'Acquire::Retries "1"',
    'Acquire::http::Timeout "20"',
    'Acquire::https::Timeout "20"',
)

# setpriv: the build is killed when Grampus is (even by `kill -9`). unshare: mounts made inside
# exist in the build's own mount namespace alone, so none can be left under the directory, and
# the end of the build's first process is the end of every process that it started.
ISOLATION = (
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--propagation",
    "slave",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)


def render_build_command(
    definition: ImageDefinition,
    root: Path,
    *,
    mirror: str | None,
    apt_options: Sequence[str] = (),
) -> list[str]:
    """The command that builds `definition` into the directory `root`.

    `mirror` is the archive's URI, None for mmdebstrap's own choice; `apt_options` are those of
    this machine, added to the definition's.
    """
    options = [*APT_OPTIONS, *definition.apt_options, *apt_options]
    return [
        *ISOLATION,
        "mmdebstrap",
        "--mode=root",
        "--format=directory",
        "--variant=minbase",
        "--verbose",
        f"--include={','.join(definition.packages)}",
        *(f"--aptopt={option}" for option in options),
        *(f"--dpkgopt={option}" for option in DPKG_OPTIONS),
        *(f"--customize-hook={hook}" for hook in render_hooks(definition)),
        # Our directories under /run must stay; the first hook empties it instead.
        "--skip=cleanup/run",
        definition.suite,
        str(root),
        *([mirror] if mirror else []),
    ]


def render_hooks(definition: ImageDefinition) -> list[str]:
    """Shell commands run when all packages are installed; `$1` is the root."""
    return [
        'find "$1/run" -mindepth 1 -not -name lock -delete',
        *(_render_user(user) for user in definition.users),
        *(_render_directory(directory) for directory in definition.directories),
        *(_render_text(text) for text in definition.texts),
        # What the image must not keep of this machine: its archive, its resolver, its name.
        'rm -f "$1/etc/resolv.conf" "$1/etc/hostname" && '
        ': > "$1/etc/resolv.conf" && echo localhost > "$1/etc/hostname"',
    ]


def _render_user(user: ImageUser) -> str:
    name, number, home = shlex.quote(user.name), user.id, shlex.quote(user.home)
    return (
        f'chroot "$1" getent group {name} > /dev/null || '
        f'chroot "$1" groupadd --system --gid {number} {name}; '
        f'chroot "$1" getent passwd {name} > /dev/null || '
        f'chroot "$1" useradd --system --uid {number} --gid {name} --home-dir {home} '
        f"--no-create-home --shell /usr/sbin/nologin {name}"
    )


def _render_directory(directory: ImageDirectory) -> str:
    owner = shlex.quote(directory.owner)
    return (
        f'chroot "$1" install -d --owner={owner} --group={owner} --mode={directory.mode} '
        f"{shlex.quote(directory.path)}"
    )


def _render_text(text: ImageText) -> str:
    path = f'"$1"{shlex.quote(text.path)}'
    return f'mkdir -p "$(dirname {path})" && printf %s {shlex.quote(text.text)} > {path}'
