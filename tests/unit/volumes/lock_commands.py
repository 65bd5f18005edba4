"""Commands of `rbd` that take the lock of an image."""

from __future__ import annotations

from collections.abc import Sequence


def takes_lock(argv: Sequence[str]) -> bool:
    """Whether librbd takes the image's exclusive lock for a command of `rbd`."""
    match list(argv):
        case ["snap", "create" | "rm" | "protect" | "unprotect" | "rollback", *_]:
            return True
        case ["resize" | "flatten" | "feature", *_] | ["image-meta", "set" | "remove", *_]:
            return True
    return False
