"""Why a build failed, in words that can be acted on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grampus.core.errors import GrampusError
from grampus.core.units import format_bytes
from grampus.lab.images.archive import MIRROR_VARIABLE
from grampus.lab.images.definition import ImageDefinition

# A build needs room for the packages and the lists beside the root itself.
DISK_SAFETY_FACTOR = 1.5

# Where another definition may do although this one failed. The rest (not root, no mmdebstrap,
# disk full, archive out of reach) would fail in the same way again.
CODES_OF_THE_DEFINITION = frozenset(
    {
        "archive-inconsistent",
        "archive-untrusted",
        "image-build-failed",
        "image-incomplete",
        "package-gone",
        "packages-conflict",
        "suite-gone",
    }
)


@dataclass(frozen=True)
class _Cause:
    """A cause: what in the output shows it, and the two sentences.

    In the sentences `{what}` is the pattern's group of that name, `{suite}` the suite and
    `{mirror_variable}` the variable that chooses another archive.
    """

    code: str
    pattern: re.Pattern[str]
    problem: str
    remedy: str


def _cause(code: str, pattern: str, problem: str, remedy: str) -> _Cause:
    return _Cause(code, re.compile(pattern), problem, remedy)


_OTHER_ARCHIVE = "or set another Debian archive in {mirror_variable}."

_DISK_BECAME_FULL = _cause(
    "disk-full",
    r"No space left on device|You don't have enough free space|Disk quota exceeded",
    "The disk became full while the host image was built.",
    "Free space, or set GRAMPUS_HOME to a larger disk.",
)

# In order: the first that matches is the cause; what comes later is often its consequence.
_CAUSES: tuple[_Cause, ...] = (
    _DISK_BECAME_FULL,
    _cause(
        "needs-root",
        r"E: need to be root",
        "Building a host image needs root.",
        "Run the command again as root (for example with sudo).",
    ),
    _cause(
        "needs-privileges",
        r"unshare: (?P<what>.*Operation not permitted)|setpriv: .*Operation not permitted",
        "This machine does not allow root to create mount and process namespaces, as in a "
        "container without privileges.",
        "Run Grampus on the machine itself, in a virtual machine, or in a privileged container.",
    ),
    _cause(
        "program-missing",
        r"unshare: failed to execute (?P<what>[\w.+-]+): No such file",
        "The program {what} is missing on this machine.",
        "Install the package {what} (on Debian: apt-get install {what}).",
    ),
    _cause(
        "clock-wrong",
        r"Release file .* is not valid yet",
        "The package archive's index is dated in the future: this machine's clock is behind.",
        "Set the clock (for example with a time service), then try again.",
    ),
    _cause(
        "archive-untrusted",
        r"NO_PUBKEY|EXPKEYSIG|REVKEYSIG|BADSIG|is not signed|Sub-process .*gpgv|Missing key "
        r"|OpenPGP signature verification failed|[Cc]ertificate verification failed",
        "The package archive's signature cannot be verified with the keys of this machine.",
        "Update the package debian-archive-keyring (and ca-certificates), " + _OTHER_ARCHIVE,
    ),
    _cause(
        "archive-unreachable",
        r"(?P<what>Temporary failure resolving '[^']*'|Could not resolve '[^']*'"
        r"|Could not resolve host: \S+|Could not connect to \S+.*|Unable to connect to \S+"
        r"|Cannot initiate the connection to \S+|Connection timed out|Connection failed"
        r"|Connection refused|Network is unreachable|407 +Proxy Authentication Required"
        r"|Could not handshake|Error reading from server|Timeout was reached)",
        "The Debian package archive cannot be reached ({what}).",
        "Check the network, the name service and apt's proxy settings, " + _OTHER_ARCHIVE,
    ),
    _cause(
        "suite-gone",
        r"Release' does not have a Release file|Unable to find expected entry",
        "The package archive has no suite '{suite}'.",
        "The machine's archive may be a partial copy: set a complete Debian archive in "
        "{mirror_variable}.",
    ),
    _cause(
        "package-gone",
        r"E: (?:Unable to locate package (?P<what>\S+)"
        r"|Package '(?P<what2>[^']+)' has no installation candidate)",
        "The package {what} is no longer in Debian's suite '{suite}'.",
        "Update Grampus, or fix the packages in images/{suite}.toml.",
    ),
    _cause(
        "archive-inconsistent",
        r"Hash Sum mismatch|File has unexpected size|Mirror sync in progress"
        r"|Unable to fetch some archives|404  Not Found",
        "The package archive's files do not match its index: the archive is being updated, "
        "or a proxy serves old copies.",
        "Try again in a few minutes, " + _OTHER_ARCHIVE,
    ),
    _cause(
        "packages-conflict",
        r"The following packages have unmet dependencies|Unable to correct problems"
        r"|[Uu]nable to satisfy dependencies|Conflicts:|held broken packages",
        "The packages of Debian's suite '{suite}' are inconsistent today{what}.",
        "Try again tomorrow (the suite changes several times a day), " + _OTHER_ARCHIVE,
    ),
)
_UNMET = re.compile(r"unmet dependencies:\n(?: Unsatisfied dependencies:\n)? *(?P<first>\S.*)")
# mmdebstrap's own summaries: true of every failure.
_SUMMARY = re.compile(r"E: (?:mmdebstrap failed to run|setup failed|apt-get .* failed$|run_)")


def classify_build_failure(output_tail: str, *, suite: str, log_file: str) -> GrampusError:
    """The cause of a failed build.

    `output_tail` is the end of what mmdebstrap and apt wrote, stdout and stderr together;
    `log_file` is where all of it can be read. The error's code is a stable word.
    """
    for cause in _CAUSES:
        match = cause.pattern.search(output_tail)
        if match is not None:
            words = {
                "what": _what(cause, match, output_tail),
                "suite": suite,
                "mirror_variable": MIRROR_VARIABLE,
            }
            return GrampusError(
                cause.problem.format(**words), cause.remedy.format(**words), code=cause.code
            )
    return GrampusError(
        f"The host image could not be built: {_most_telling_line(output_tail)}.",
        f"Read {log_file} for the whole output.",
        code="image-build-failed",
    )


def disk_became_full() -> GrampusError:
    """The error of a disk that became full outside mmdebstrap."""
    cause = _DISK_BECAME_FULL
    return GrampusError(cause.problem, cause.remedy, code=cause.code)


def decide_disk_shortage(definition: ImageDefinition, free_bytes: int, where: str) -> None:
    """Raise GrampusError with code `disk-full` when `free_bytes` at `where` are too few."""
    needed_bytes = int(definition.estimated_size_bytes * DISK_SAFETY_FACTOR)
    if free_bytes < needed_bytes:
        raise GrampusError(
            f"The host image '{definition.name}' needs {format_bytes(needed_bytes)}, but "
            f"{where} has only {format_bytes(free_bytes)} free.",
            "Free space, or set GRAMPUS_HOME to a larger disk.",
            code="disk-full",
        )


def decide_next_definition(code: str, remaining: Sequence[str], cached: set[str]) -> str | None:
    """The definition to try once one has failed with error `code`, None to give up.

    Where the cause lies in the definition, the next one; where it lies in the machine or the
    network, the first that needs no build because its image is `cached`.
    """
    if code in CODES_OF_THE_DEFINITION:
        return remaining[0] if remaining else None
    return next((name for name in remaining if name in cached), None)


def _what(cause: _Cause, match: re.Match[str], output: str) -> str:
    if cause.code == "packages-conflict":
        unmet = _UNMET.search(output)
        return f" ({' '.join(unmet['first'].split())})" if unmet else ""
    found = next((text for text in match.groupdict().values() if text), "")
    return found.strip().rstrip(".")


def _most_telling_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E: ") and not _SUMMARY.match(line)]
    telling = errors or [line for line in lines if not line.startswith(("I: ", "E: "))] or lines
    return telling[-1].removeprefix("E: ").rstrip(".")[:300] if telling else "it wrote no message"
