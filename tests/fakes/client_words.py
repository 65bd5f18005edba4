"""What the client that Grampus manages a server with is told, for fakes that stand for servers."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.databases.layout import CLIENT_PROGRAMS

DEFAULTS_ON_STDIN = "--defaults-file=/dev/stdin"


def is_admin_client(argv: Sequence[str], what: str) -> bool:
    """Whether `admin_client` made it: for `statements`, or for those that hold `secrets`."""
    return list(argv[:2]) == ["/bin/sh", "-c"] and argv[3] == what


def with_statement(argv: Sequence[str], stdin: str | None) -> tuple[Sequence[str], str | None]:
    """The same client with its statements as the last word, and its options alone on stdin.

    Everything else stays as it is.
    """
    if not is_admin_client(argv, "statements"):
        return argv, stdin
    assert argv[4] in CLIENT_PROGRAMS.values()
    options, _, sql = (stdin or "").partition("\n\n")
    words = [argv[4], DEFAULTS_ON_STDIN, *argv[5:], "--execute", sql.removesuffix("\n")]
    return words, f"{options}\n"
