"""Names that are safe in a shell, a path, SQL, an RBD image name and a DNS label alike."""

from __future__ import annotations

import re

from grampus.core.errors import UsageError

MAX_NAME_LENGTH = 32
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?")
# Names that mean something to the shell user, to MySQL or to our own paths.
RESERVED_NAMES = frozenset(
    {"all", "latest", "none", "null", "root", "mysql", "sys", "default-pool"}
)


def require_name(noun: str, name: str) -> str:
    """Return `name` if it is a valid name for a `noun` (such as "database").

    Rule: the host part of RFC 1123 labels, lower case only, starting with a letter, at most
    32 characters; this set needs no quoting anywhere that Grampus puts a name.

    Raises UsageError otherwise.
    """
    if _NAME.fullmatch(name) is None or "--" in name:
        raise UsageError(
            f"{name!r} is not a valid {noun} name.",
            f"Use 1 to {MAX_NAME_LENGTH} lower-case letters, digits and single hyphens, "
            "starting with a letter and not ending with a hyphen.",
            code="invalid-name",
        )
    if name in RESERVED_NAMES:
        raise UsageError(
            f"'{name}' is a reserved word and is not available as a {noun} name.",
            "Choose another name.",
            code="invalid-name",
        )
    return name
