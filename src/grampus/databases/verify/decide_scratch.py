"""Databases that a look at another one makes for a while: their names, and whose they are. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from grampus.core.errors import RefusedError, UsageError
from grampus.core.names import MAX_NAME_LENGTH, require_name
from grampus.databases.model import DatabaseSpec

CLONE_LABEL = "verify"
TEST_LABEL = "restore-test"
# By label: how the locks begin that are held while such a database is there, what the look at
# another one is called, and what such databases are made for, which is in their names.
_LOCKS = {CLONE_LABEL: "verify-tables", TEST_LABEL: "restore-test"}
_LOOKS = {CLONE_LABEL: "verification", TEST_LABEL: "restore test"}
_PURPOSES = {CLONE_LABEL: ("verify",), TEST_LABEL: ("restore-test-new", "restore-test-old")}


@dataclass(frozen=True)
class Maker:
    """Who makes databases for a while: a look of one kind at one database."""

    label: str  # that it gives them, with the database as its value
    database: str

    @property
    def what(self) -> str:
        """Such as `restore test of shop`."""
        return f"{_LOOKS[self.label]} of {self.database}"

    def lock(self, lab: str) -> str:
        """The lock that it holds from before it makes one until that is gone."""
        return f"{_LOCKS[self.label]}.{lab}.{self.database}"


def find_maker(spec: DatabaseSpec) -> Maker | None:
    """Who made this database for a while; None: it may be somebody's.

    A label can be anybody's, and so can a name. Only what has both, and the name that belongs to
    the label's value, was made for a while.
    """
    for label, purposes in _PURPOSES.items():
        database = spec.labels.get(label, "")
        if not _is_name(database):
            continue
        if spec.name in [scratch_name(purpose, database) for purpose in purposes]:
            return Maker(label, database)
    return None


def is_made_for_a_while(spec: DatabaseSpec) -> bool:
    """Whether Grampus alone uses the database, and deletes it soon."""
    return find_maker(spec) is not None


def _is_name(text: str) -> bool:
    try:
        require_name("database", text)
    except UsageError:
        return False
    return True


def scratch_name(purpose: str, database: str) -> str:
    """The name of the one that is made of `database` for `purpose`; always the same one."""
    digest = hashlib.sha256(database.encode()).hexdigest()[:8]
    return f"{purpose}-{digest}"[:MAX_NAME_LENGTH]


def require_scratch(spec: DatabaseSpec, label: str) -> None:
    """Raise RefusedError with code `name-taken` for a database that was not made for a while.

    Those have the label `label`. Whatever has the name alone is somebody's, and is not deleted.
    """
    if label not in spec.labels:
        raise RefusedError(
            f"The database {spec.name} has a name that Grampus needs for a temporary database.",
            f"Rename the database (`grampus db rename {spec.name} NEW`), then try again.",
            code="name-taken",
        )
