"""The epochs of controllers in a cluster, for tests: by the scripts that are run for them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from grampus.ceph.epoch_objects import CREATE, FIND, REMOVE, epoch_prefix


class FakeEpochObjects:
    """Objects by their names, as `EpochObjects` asks for them; an `Epochs` of one site, too."""

    def __init__(self, site: str = "prod") -> None:
        self.objects: dict[str, str] = {}
        self._prefix = epoch_prefix(site)
        self.looks = 0

    def play(self, argv: Sequence[str], stdin: str | None) -> str | None:
        """What a script says; None: it is another one."""
        if list(argv[:2]) != ["python3", "-c"] or argv[2] not in (FIND, CREATE, REMOVE):
            return None
        prefix, number = argv[4], int(argv[5])
        assert prefix == self._prefix
        if argv[2] == FIND:
            return json.dumps(self.find(number))
        if argv[2] == CREATE:
            return json.dumps(self.create(number, stdin or ""))
        self.remove_all()
        return ""

    def find(self, first: int) -> str | None:
        """See `EpochObjects`."""
        self.looks += 1
        found = None
        while (text := self.objects.get(f"{self._prefix}{first}")) is not None:
            found, first = text, first + 1
        return found

    def create(self, number: int, text: str) -> bool:
        """See `EpochObjects`."""
        is_new = f"{self._prefix}{number}" not in self.objects
        self.objects.setdefault(f"{self._prefix}{number}", text)
        return is_new

    def remove_all(self) -> None:
        """See `EpochObjects`."""
        self.objects.clear()
