"""What a fake server has for applications: time zones by name, and the component for MD5().

Both are files of its data directory, so that they go where that is copied to, and back where it is
rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from grampus.databases.application_support import INSTALL_SQL, LOADING, NAMES_SQL, OBSERVE_SQL
from grampus.databases.first_tables import HASHING_COMPONENT
from grampus.databases.replica_writing import LOCK_SQL
from tests.fakes.client_words import is_admin_client

COMPONENTS, ZONES = PurePosixPath("data/components"), PurePosixPath("data/zones")
ZONE_NAMES = "Europe/Berlin\nEurope/London\nUTC\n"
_SUPER_READ_ONLY = "SET GLOBAL super_read_only = "
Answer = tuple[int, str]


@dataclass(frozen=True)
class Tables:
    """What one server reads and writes."""

    files: MutableMapping[PurePosixPath, Any]
    volume: PurePosixPath
    make_file: Callable[[str], Any]
    burn: Callable[[], None]
    failure: str = ""  # what a load ends with

    def note_first(self, script: str) -> None:
        """What an initialisation leaves that runs this script."""
        if HASHING_COMPONENT in script:
            self.files[self.volume / COMPONENTS] = self.make_file(HASHING_COMPONENT)
        if "zoneinfo" in script:
            self.files[self.volume / ZONES] = self.make_file(ZONE_NAMES)

    def answer(self, argv: Sequence[str], daemon: Any, version: str) -> Answer | None:
        """What the server says, None: it is asked something else."""
        if argv[-1] == NAMES_SQL:
            found = self.files.get(self.volume / ZONES)
            return 0, "" if found is None else found.content
        if argv[-1] == OBSERVE_SQL:
            return 0, f"{version}\t{int(self.volume / COMPONENTS in self.files)}\n"
        if argv[-1].startswith(_SUPER_READ_ONLY) or argv[-1] == LOCK_SQL:
            self.burn()
            daemon.super_read_only = argv[-1].endswith("ON")
            return 0, ""
        if argv[-1] == INSTALL_SQL:
            return self._write(daemon, COMPONENTS, HASHING_COMPONENT)
        if is_admin_client(argv, LOADING):  # as `application_support` loads them
            return (1, self.failure) if self.failure else self._write(daemon, ZONES, ZONE_NAMES)
        return None

    def know_zone(self, config: str, argv: Sequence[str]) -> bool:
        """Whether a server starts with the time zone that it is told, the command line last."""
        told = re.findall(r"^default_time_zone = (.*)$", config, re.MULTILINE)
        option = "--default-time-zone="
        told += [word.removeprefix(option) for word in argv if word.startswith(option)]
        if not told or told[-1] == "SYSTEM" or told[-1][0] in "+-":
            return True
        known = self.files.get(self.volume / ZONES)
        return known is not None and told[-1] in known.content.splitlines()

    def _write(self, daemon: Any, place: PurePosixPath, content: str) -> Answer:
        if self._is_read_only(daemon):
            return 1, "ERROR 1290 (HY000) at line 1: running with the --super-read-only option"
        self.burn()
        self.files[self.volume / place] = self.make_file(content)
        self.burn()
        return 0, ""

    def _is_read_only(self, daemon: Any) -> bool:
        if daemon.super_read_only is not None:
            return bool(daemon.super_read_only)
        config = self.files[PurePosixPath(daemon.spec.binds[0].source) / "my.cnf"].content
        return "super_read_only = ON" in config
