"""What the cephx user of Grampus must be able to do on a site's cluster, and no more. All pure.

What the grants mean (Ceph 20.2, `MonCapGrant`, `MgrCapGrant` and `OSDCapGrant`; also 18 and 16):

- MON, `profile rbd`: read the maps and the status, and put a client's address on the blocklist.
- MON, `sessions` and `get_command_descriptions`: `ceph tell mon.X sessions`, by which a fence finds
  the clients of a volume. What is told one MON needs all rights on `mon`, or a grant by name.
- MON, `allow command ... with`: one command, if its arguments are as the grant says. Without the
  exact `with`, whoever may create a user could create an administrator. A store key (`config-key`)
  is covered by no other grant than `allow *`.
- OSD, `profile rbd pool=POOL`: everything in all namespaces of this pool. There is one for each
  pool of the site; the user opens no other one.

The users that Grampus creates have `profile rbd` and `profile rbd-read-only` on namespaces of the
pool (`volumes/decide_namespace.py`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grampus.core.errors import UsageError

SERVICES = ("mon", "mgr", "osd")
_POOL = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_GRANT = re.compile(r'(?:"[^"]*"|\'[^\']*\'|[^,;"\'])+')
_COMMAND = re.compile(r'allow command[ =]"?(?P<command>[a-z][a-z_ -]*[a-z])"?(?: with .*)?')
_PLACES = re.compile(r"pool=\(?(?P<pools>[A-Za-z0-9_.|\[\]-]+)\)? namespace=", re.ASCII)
_DENIED = re.compile(r"EACCES|EPERM|access denied|[Pp]ermission denied|not permitted")


@dataclass(frozen=True)
class MissingGrant:
    """Something that Grampus needs and the user has not."""

    service: str  # mon, mgr or osd
    grant: str

    def __str__(self) -> str:
        return f"{self.service}: {self.grant}"


def require_user(user: str) -> str:
    """The user's name, without `client.`. Raises UsageError."""
    name = user.removeprefix("client.")
    if _USER.fullmatch(name) is None:
        raise UsageError(
            f"{user!r} is not a name of a cephx user.",
            "Give the name behind `client.`, such as grampus.",
            code="bad-user",
        )
    return name


def require_pool(pool: str) -> str:
    """The pool's name, if it can be part of a capability. Raises UsageError."""
    if _POOL.fullmatch(pool) is None:
        raise UsageError(
            f"{pool!r} is not a name of a pool that Grampus can use.",
            "Use letters, digits, dots, hyphens and underscores.",
            code="bad-pool",
        )
    return pool


def user_prefix(site: str) -> str:
    """How the entities of the volumes of a site begin."""
    return f"client.grampus.{site}."


def note_prefix(site: str) -> str:
    """How the keys that a site's state has in the MONs' store begin."""
    return f"grampus/{site}/"


def require_pools(pools: Sequence[str]) -> tuple[str, ...]:
    """The pools of a site, each named once, in the given order. Raises UsageError."""
    return tuple(dict.fromkeys(require_pool(pool) for pool in pools))


def required_caps(site: str, user: str, pools: Sequence[str]) -> dict[str, str]:
    """The capabilities by service, as `ceph auth` takes them."""
    grants = _required_grants(site, user, pools)
    return {service: ", ".join(needed) for service, needed in grants.items()}


def _required_grants(site: str, user: str, given: Sequence[str]) -> dict[str, list[str]]:
    pools = sorted(given)  # which one is for new databases is no matter of capabilities
    of_volumes = f"with entity prefix {user_prefix(site)}"
    names = "|".join(pool.replace(".", "[.]") for pool in pools)
    any_pool = names if len(pools) == 1 else f"({names})"
    place = f"profile rbd(-read-only)? pool={any_pool} namespace=[^, ]*"
    as_volume = f'{of_volumes} caps_mon="profile rbd" caps_osd regex "{place}(, {place})*"'
    notes = f"with key prefix {note_prefix(site)}"
    return {
        "mon": [
            "profile rbd",
            'allow command "sessions"',
            'allow command "get_command_descriptions"',
            f'allow command "auth get" with entity=client.{user}',
            f'allow command "auth get" {of_volumes}',
            f'allow command "auth get-or-create" {as_volume}',
            f'allow command "auth caps" {as_volume}',
            f'allow command "auth get-or-create-pending" {of_volumes}',
            f'allow command "auth commit-pending" {of_volumes}',
            f'allow command "auth rm" {of_volumes}',
            f'allow command "config-key get" {notes}',
            f'allow command "config-key set" {notes}',
            f'allow command "config-key rm" {notes}',
        ],
        "mgr": [
            'allow command "pg dump"',
            'allow command "pg deep-scrub"',
            'allow command "pg repair"',
        ],
        "osd": [f"profile rbd pool={pool}" for pool in pools],
    }


def render_grant(site: str, user: str, pools: Sequence[str]) -> str:
    """The command that creates the user; it is to be pasted where the admin key is."""
    return _render(f"ceph auth get-or-create client.{user}", site, user, pools) + (
        f" \\\n  -o ceph.client.{user}.keyring"
    )


def render_update(site: str, user: str, pools: Sequence[str]) -> str:
    """The command that gives an existing user these capabilities instead of the ones it has."""
    return _render(f"ceph auth caps client.{user}", site, user, pools)


def _render(command: str, site: str, user: str, pools: Sequence[str]) -> str:
    caps = required_caps(site, user, pools)
    return " \\\n".join([command, *(f"  {one} {shlex.quote(caps[one])}" for one in SERVICES)])


def parse_grants(caps: str) -> list[str]:
    """The single grants of one service, with single spaces."""
    return [" ".join(found.split()) for found in _GRANT.findall(caps) if found.strip()]


def find_missing(needed: Mapping[str, str], found: Mapping[str, str]) -> list[MissingGrant]:
    """The needed grants that are not evidently among those found.

    Only grants that say the same, or obviously more, are recognised.
    """
    missing = []
    for service in SERVICES:
        held = parse_grants(found.get(service, ""))
        missing += [
            MissingGrant(service, grant)
            for grant in parse_grants(needed.get(service, ""))
            if not any(_covers(one, grant) for one in held)
        ]
    return missing


def has_too_much(found: Mapping[str, str]) -> list[str]:
    """The services on which the user may do everything."""
    return [service for service in SERVICES if "allow *" in parse_grants(found.get(service, ""))]


def _covers(held: str, needed: str) -> bool:
    if held in ("allow *", needed):
        return True
    # The same of more pools.
    same, more = (_PLACES.sub("pool= namespace=", one) for one in (needed, held))
    if same == more and _pools_in(needed) <= _pools_in(held):
        return True
    command = _COMMAND.fullmatch(needed)
    # The same command, whatever its arguments.
    return command is not None and held in (
        f'allow command "{command["command"]}"',
        f"allow command={command['command']}",
    )


def _pools_in(grant: str) -> set[str]:
    """Pools that volumes may be in, as expressions, where a grant names the same ones each time."""
    named = {found["pools"] for found in _PLACES.finditer(grant)}
    return set(named.pop().split("|")) if len(named) == 1 else set()


def is_denied(said: str) -> bool:
    """Whether an error of Ceph is about a missing capability."""
    return _DENIED.search(said) is not None


def find_denied(command: str, said: str, needed: Mapping[str, str]) -> MissingGrant | None:
    """The grant whose absence makes Ceph refuse `command` (such as `auth get`); None: no such.

    A command with no grant of its own is one that reads, and needs the MONs' `profile rbd`.
    """
    if not is_denied(said):
        return None
    for service in SERVICES:
        for grant in parse_grants(needed.get(service, "")):
            found = _COMMAND.fullmatch(grant)
            if found is not None and found["command"] == command:
                return MissingGrant(service, grant)
    service = "osd" if command.split()[0] in ("rbd", "rados") else "mon"
    profile = next(iter(parse_grants(needed.get(service, ""))), None)
    return None if profile is None else MissingGrant(service, profile)
