"""Ids of RBD images in memory: no other image ever has one again, as in a cluster.

The address of a Python object is no such id: it is free for the next object.
"""

from __future__ import annotations

from itertools import count

_numbers = count(0x1A2B_0000)


def new_image_id() -> str:
    """An id that no image had before."""
    return f"{next(_numbers):x}"
