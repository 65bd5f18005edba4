"""Where packages come from: the machine's own apt settings, or the user's choice.

No archive is named here: the machine's configuration knows the nearest one, and mmdebstrap
has a default of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from grampus.core.errors import UsageError
from grampus.hosts.process import run_command

MIRROR_VARIABLE = "GRAMPUS_DEBIAN_MIRROR"
INDEX_TARGET_FORMAT = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)"

_SETTING = re.compile(r'(?P<key>\S+) "(?P<value>.*)";')
# Certificates for an archive behind TLS inspection; they are paths, never secrets.
_PASSED_ON = re.compile(
    r"Acquire::https(::[^:]+)?::(CaInfo|Verify-Peer|Verify-Host)", re.IGNORECASE
)
_PROXY = re.compile(r"Acquire::(?P<scheme>https?)::Proxy", re.IGNORECASE)
_DIRECT_HOST = re.compile(r"Acquire::https?::Proxy::(?P<host>[^:]+)", re.IGNORECASE)


@dataclass(frozen=True)
class ArchiveSource:
    """How to reach the archive.

    Proxies are passed as environment variables, not as options: they may hold a password,
    which must neither show in the process list nor stay in the image.
    """

    mirror: str | None = None
    apt_options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def observe_archive(environment: Mapping[str, str]) -> ArchiveSource:
    """The archive to build from.

    `environment` is ours: `GRAMPUS_DEBIAN_MIRROR` in it wins over the machine's apt settings.

    Raises UsageError when that variable is no archive; GrampusError with code
    `program-missing` on a machine without apt.
    """
    settings = parse_apt_settings(run_command(["apt-config", "dump"], timeout_s=30).stdout)
    chosen = environment.get(MIRROR_VARIABLE)
    if chosen:
        mirror: str | None = require_mirror(chosen)
    else:
        targets = run_command(
            ["apt-get", "indextargets", "--format", INDEX_TARGET_FORMAT],
            timeout_s=60,
            check=False,  # a machine with broken lists still builds from mmdebstrap's default
        )
        mirror = decide_mirror(targets.stdout.splitlines())
    return ArchiveSource(
        mirror=mirror,
        apt_options=decide_apt_options(settings),
        env=decide_proxy_environment(settings),
    )


def parse_apt_settings(dump: str) -> list[tuple[str, str]]:
    """Keys and values of `apt-config dump`, in its order."""
    matches = (_SETTING.fullmatch(line) for line in dump.splitlines())
    return [(match["key"], match["value"]) for match in matches if match is not None]


def decide_mirror(index_targets: Iterable[str]) -> str | None:
    """The machine's Debian archive, from lines of `INDEX_TARGET_FORMAT`; None if it has none.

    Debian's security archive has the origin Debian too, but another label, and lacks our
    suites. Only HTTP archives are taken: what other transports need is not in the build.
    """
    for line in index_targets:
        origin, label, component, uri = [*line.split("|"), "", "", "", ""][:4]
        if (origin, label, component) == ("Debian", "Debian", "main") and _is_plain_http(uri):
            return uri.rstrip("/")
    return None


def decide_apt_options(settings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The settings of the machine that the build's apt needs too, as apt options."""
    return tuple(f'{key} "{value}"' for key, value in settings if _PASSED_ON.fullmatch(key))


def decide_proxy_environment(settings: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Environment variables that make apt use the machine's apt proxies (apt.conf(5)).

    A host whose own proxy is DIRECT goes to `no_proxy`; another proxy for one host alone has
    no such variable and is left out.
    """
    variables: dict[str, str] = {}
    direct: list[str] = []
    for key, value in settings:
        proxy, host = _PROXY.fullmatch(key), _DIRECT_HOST.fullmatch(key)
        if proxy is not None and value.upper() not in {"", "DIRECT", "FALSE"}:
            variables[f"{proxy['scheme'].lower()}_proxy"] = value
        elif host is not None and value.upper() == "DIRECT":
            direct.append(host["host"])
    if direct:
        variables["no_proxy"] = ",".join(direct)
    return variables


def require_mirror(uri: str) -> str:
    """`uri` without a slash at its end. Raises UsageError when it is no usable archive."""
    if not _is_plain_http(uri):
        raise UsageError(
            f"{MIRROR_VARIABLE} is not the address of a Debian archive.",
            "Set it to an http:// or https:// address without a user or password.",
            code="mirror-invalid",
        )
    return uri.rstrip("/")


def _is_plain_http(uri: str) -> bool:
    parts = urlsplit(uri)
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
