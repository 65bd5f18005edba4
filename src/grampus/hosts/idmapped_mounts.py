"""As whom a daemon runs, and how its files on disk become its own (pure).

runc 1.1 makes no idmapped mounts, so a hook makes them: the program `idmap_mounts_hook.py`.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from importlib import resources
from typing import Any

from grampus.hosts.port import Bind, DaemonSpec

_PROGRAM = resources.files("grampus.hosts").joinpath("idmap_mounts_hook.py")
_HOOK_TIMEOUT_S = 60
# Answers of a kernel, a file system or a machine that has no idmapped mounts: Linux before 5.12, a
# file system without support, one that is idmapped already, user namespaces turned off or limited.
_CANNOT = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSPC})
# By the calls that ask whether it can be done; when a later one fails, something is broken.
_ASKING = ("unshare", "uid_map", "gid_map", "open_tree", "mount_setattr")


def mapped_binds(spec: DaemonSpec) -> Sequence[Bind]:
    """The binds whose files belong to somebody else on disk than inside the daemon."""
    return [bind for bind in spec.binds if bind.owner not in (None, spec.uid)]


def decide_user(spec: DaemonSpec, *, maps_owners: bool) -> tuple[int, int]:
    """User and group that the daemon runs as, if owners are mapped, or cannot be."""
    mapped = mapped_binds(spec)
    if maps_owners or not mapped:
        return spec.uid, spec.gid
    owner = mapped[0].owner or 0
    return owner, owner


def render_hooks(spec: DaemonSpec, *, root: str, note: str) -> dict[str, Any]:
    """The hooks of an OCI configuration that map owners; what they cannot do is said in `note`."""
    mapped = mapped_binds(spec)
    owners = sorted({bind.owner for bind in mapped if bind.owner is not None})
    # Isolated, and without site packages: it starts faster, and uses nothing but the program.
    program = [sys.executable, "-I", "-S", str(_PROGRAM)]
    return {
        "createContainer": [
            {
                "path": sys.executable,
                "args": [
                    *program,
                    *(str(owner), str(spec.uid), str(spec.gid), note),
                    *(f"{root}{bind.target}" for bind in mapped if bind.owner == owner),
                ],
                "timeout": _HOOK_TIMEOUT_S,
            }
            for owner in owners
        ]
    }


def explain_unmapped(note: str) -> str | None:
    """Why owners cannot be mapped there, if that is what the note says; None: something failed."""
    code, _, said = note.strip().partition(" ")
    cannot = code.isdecimal() and int(code) in _CANNOT and said.partition(":")[0] in _ASKING
    return said if cannot else None
