"""What a host of a site has of Grampus, and whether this Grampus can work with it. Pure.

The host says it in the file DIR/data/host-parts, on one line: FORMAT VERSION IMAGE DIGEST. Each
connection compares FORMAT (`host_root.inside_argv`), so a Grampus that is too old for a host
changes nothing there. VERSION is the Grampus that put the parts there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from grampus.core.errors import RefusedError

# Raise it when an earlier Grampus cannot work with what this one puts on a host (directories,
# scripts that stay there, names of services), and OLDEST_FORMAT when this one cannot work with what
# an earlier one put there.
HOST_FORMAT = 1
OLDEST_FORMAT = 1
PARTS_FILE = "host-parts"
# What a host says whose parts this Grampus cannot work with: FORMAT VERSION follow. Of a file that
# is damaged nothing is known, so nothing is done.
OTHER_PARTS = "this host has parts of the format"
# What a host says that lacks an image: its id, that of what the host has, and VERSION follow.
LACKS_IMAGE = "this host lacks the host image"

# `current`: the same image. `older`: to be upgraded; it works until then. `newer`: a later Grampus
# upgraded the host; this one works with it. `too-new`, `too-old`: they cannot work together.
PartsState = Literal["current", "older", "newer", "too-new", "too-old"]


@dataclass(frozen=True)
class HostParts:
    """What a host has: the format of its directory, and the host image that commands run in."""

    format: int
    version: str  # of the Grampus that put it there; empty: nobody noted it
    image_id: str
    digest: str  # of the image's files; empty: nobody knows it

    def words(self) -> list[str]:
        """The words of the host's file."""
        return [str(self.format), self.version or "-", self.image_id, self.digest or "-"]


def parse_parts(text: str) -> HostParts | None:
    """What the host's file says; None: it is not there, or damaged."""
    words = text.split()
    if len(words) != 4 or not words[0].isdecimal():
        return None
    version, image_id, digest = ("" if word == "-" else word for word in words[1:])
    return HostParts(int(words[0]), version, image_id, digest)


def render_parts(parts: HostParts) -> str:
    """The text of the host's file."""
    return " ".join(parts.words()) + "\n"


def classify_parts(found: HostParts, own: HostParts) -> PartsState:
    """What a host has, compared with what this Grampus would put there."""
    if found.format > own.format:
        return "too-new"
    if found.format < OLDEST_FORMAT:
        return "too-old"
    if is_later(found.version, own.version) and found.image_id != own.image_id:
        return "newer"
    is_same = (found.format, found.image_id) == (own.format, own.image_id)
    return "current" if is_same else "older"


def is_later(version: str, other: str) -> bool:
    """Whether a version of Grampus is a later one than the other; one that nobody noted is not."""
    return numbers_of(version) > numbers_of(other)


def numbers_of(version: str) -> tuple[int, ...]:
    """A version of Grampus as it is compared; that of one that nobody noted is the earliest."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def explain_state(host: str, found: HostParts, own: HostParts) -> tuple[str, str]:
    """What a user reads of a host that is not `current`: a sentence, and what to do."""
    upgrade = f"`grampus host upgrade {host}` upgrades the host."
    by = f" of Grampus {found.version}" if found.version else ""
    match classify_parts(found, own):
        case "current":
            return f"{host} has the host image of this Grampus, {found.image_id}.", ""
        case "older":
            return (
                f"{host} has the host image {found.image_id}{by}; this Grampus has {own.image_id}.",
                upgrade,
            )
        case "too-old":
            return f"The parts{by} on {host} are too old for Grampus {own.version}.", upgrade
        case "newer" | "too-new":
            return (
                f"{host} was upgraded by Grampus {found.version}, and this is Grampus "
                f"{own.version}.",
                "Upgrade Grampus on this machine.",
            )


def explain_refusal(host: str, said: str) -> RefusedError:
    """The error of a host that did not run a command because of its parts (`host_root`)."""
    if OTHER_PARTS in said:
        number, version = said.partition(OTHER_PARTS)[2].split()[:2]
        return _explain_other(host, number, version)
    image, has, version = said.partition(LACKS_IMAGE)[2].split()[:3]
    instead = f" It has {has}" + ("." if version == "-" else f", of Grampus {version}.")
    return RefusedError(
        f"{host} does not have the host image {image}.{'' if has == '-' else instead}",
        f"`grampus host upgrade {host}` copies it. If another GRAMPUS_HOME upgraded the host, run "
        "the command there.",
        code="host-parts",
    )


def _explain_other(host: str, number: str, version: str) -> RefusedError:
    of = "" if version == "-" else f" of Grampus {version}"
    if not number.isdecimal():
        return RefusedError(
            f"{host} does not say which parts of Grampus it has: its file {PARTS_FILE} is damaged.",
            f"`grampus host add {host} --ssh USER@ADDRESS` writes it again.",
            code="host-parts",
        )
    if int(number) < OLDEST_FORMAT:
        return RefusedError(
            f"The parts{of} on {host} are too old for this Grampus.",
            f"`grampus host upgrade {host}` upgrades the host.",
            code="host-parts",
        )
    return RefusedError(
        f"The parts{of} on {host} are too new for this Grampus.",
        "Upgrade Grampus on this machine.",
        code="newer-host",
    )


def require_upgradable(host: str, found: HostParts, own: HostParts) -> None:
    """Raise RefusedError with code `newer-host` if a later Grampus upgraded the host."""
    if classify_parts(found, own) in ("newer", "too-new"):
        sentence, remedy = explain_state(host, found, own)
        raise RefusedError(
            sentence, f"{remedy} Grampus never installs older parts on a host.", code="newer-host"
        )
