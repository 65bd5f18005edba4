"""What images are clones of, in a cluster in memory, as a script lists it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.fakes.mon_commands import asks_parents, follow_parents

if TYPE_CHECKING:
    from .cluster import RbdCluster

ENOENT = 2


def answer_parents(cluster: RbdCluster, argv: Sequence[str]) -> tuple[int, str] | None:
    """What the script says; None for another command."""
    if not asks_parents(argv):
        return None
    name = f"{argv[3]}/{argv[4]}"
    if name not in cluster.images:
        return ENOENT, f"rbd: error opening image {name}"

    def info(asked: list[str]) -> Any:
        return json.loads(cluster._rbd(asked[1:])[1])

    return 0, json.dumps(follow_parents(argv, info))
