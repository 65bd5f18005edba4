"""A journal that has lost what was acknowledged: how volumed says so, and what can be done."""

from __future__ import annotations

CODE = "journal-damaged"
# volumed names this option when it refuses a damaged journal, and in no other error.
_MARK = "--accept-damage"


def is_damage(said: str) -> bool:
    """Whether what volumed said is that a journal is damaged."""
    return _MARK in said


def explain_remedy(name: str) -> str:
    """What the user of the volume `name` can do."""
    return (
        "Restore the lost objects, or restore from a backup. To accept the loss: `grampus "
        f"volume detach {name}`, then `grampus volume replay {name} --accept-loss`. Check the "
        "file system afterwards."
    )
