"""Certificates of one instance: an authority, a server and a client certificate.

The authority is its own, but for replicas: all those of one database share one, so that whoever
trusts one of them trusts the next as well, and the read-only endpoint that leads to any of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.core.shell import in_one_shell
from grampus.databases.credentials import Authority
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, InstancePlan
from grampus.hosts.port import Host

VALID_DAYS = 3650
# Of an authority that goes on signing, so that what it signs late does not outlast it.
SIGNS_FOR_DAYS = 5 * VALID_DAYS
AUTHORITIES, SERVER_CERTIFICATE = "ca.pem", "server-cert.pem"
# The server's certificate last: with it, certificates count as whole.
TLS_FILES = (AUTHORITIES, "client-cert.pem", "client-key.pem", "server-key.pem", SERVER_CERTIFICATE)
_AUTHORITY_KEY = "ca-key.pem"
_NAMED = re.compile(r"IP Address:(\d+\.\d+\.\d+\.\d+)", re.ASCII)
_BEGIN = "-----BEGIN CERTIFICATE-----"


def ensure_certificates(
    host: Host,
    plan: InstancePlan,
    authority: Authority | None = None,
    *,
    names: Collection[str] = (),
) -> None:
    """Make the instance's certificates unless they are there.

    `names` are addresses where clients will look for the server later: those of other hosts, if it
    has that of its host. Certificates that lack its address, or one of these, are made again.

    They are made beside their place and moved there whole. Without an `authority` that is there
    already they get one of their own, whose key is thrown away once both are signed: nobody can
    ever forge another, and new certificates come with a new authority. The client certificate is
    for clients that cannot do TLS without one (sysbench 1.0); it proves nothing to the server.

    Raises CommandFailedError when `openssl` fails on the host.
    """
    is_there = host.read_file(plan.tls_dir / SERVER_CERTIFICATE) is not None
    if is_there and not (names and _lacks_names(host, plan, names)):
        return
    making = _begin(host, plan, plan.tls_dir, authority, names)
    name = name_authority(plan.database) if authority is None else None
    host.run(
        in_one_shell(
            *_signing_commands(making, plan.database, name),
            *_finishing_commands(making, plan.tls_dir),
        )
    )


def make_authority(host: Host, directory: PurePosixPath, name: str) -> Authority:
    """A new authority that goes on signing, made on `host` in `directory`, which is gone then.

    Raises GrampusError, such as CommandFailedError, when `openssl` fails on the host.
    """
    host.run(
        in_one_shell(["rm", "-rf", str(directory)], ["install", "-d", "-m", "0700", str(directory)])
    )
    host.write_file(directory / "openssl.cnf", render_openssl_conf(()))
    host.run(_certificate_argv(directory, "ca", name, SIGNS_FOR_DAYS))
    certificate = host.read_file(directory / AUTHORITIES)
    key = host.read_file(directory / _AUTHORITY_KEY)
    host.run(["rm", "-rf", str(directory)])
    if not certificate or not key:
        raise GrampusError(f"`openssl` created no authority in {directory} on {host.name}.")
    return Authority(certificate=certificate, key=SecretStr(key))


def ensure_next_certificates(
    host: Host,
    plan: InstancePlan,
    name: str,
    authority: Authority | None = None,
    *,
    names: Collection[str] = (),
) -> None:
    """Make certificates that are coming into use, beside those in use, unless they are there.

    Without an `authority` that is there already, theirs is called `name`, and must be another
    one's: a client that knows two of one name may look for the server's among the wrong one's.
    Beside them lies what clients are to trust meanwhile: all authorities that they trust now, and
    theirs as the last.

    Raises GrampusError with code `certificate-missing`, and CommandFailedError.
    """
    if host.read_file(plan.next_tls_dir / SERVER_CERTIFICATE) is not None:
        return
    trusted = require_authorities(host, plan)
    making = _begin(host, plan, plan.next_tls_dir, authority, names)
    signing = _signing_commands(making, plan.database, name if authority is None else None)
    host.run(in_one_shell(*signing))
    made = host.read_file(making / AUTHORITIES) or ""
    trusted = trusted.replace(made, "")  # it may be trusted already
    host.write_file(making / AUTHORITIES, trusted + made, mode=0o600)
    files = [str(making / name) for name in TLS_FILES]
    host.run(in_one_shell(["sync", *files], *_finishing_commands(making, plan.next_tls_dir)))


def require_authorities(host: Host, plan: InstancePlan) -> str:
    """What clients of the instance trust. Raises GrampusError with code `certificate-missing`."""
    found = host.read_file(plan.tls_dir / AUTHORITIES)
    if found is None:
        raise GrampusError(
            f"The certificate {plan.tls_dir / AUTHORITIES} is missing on {host.name}.",
            f"`grampus db restart {plan.database}` creates new certificates. Then try again.",
            code="certificate-missing",
        )
    return found


def newest_authority(authorities: str) -> str:
    """The last of the certificates in a PEM file, which is the newest."""
    _, begin, last = authorities.rpartition(_BEGIN)
    return begin + last


def name_authority(database: str, made_at: datetime | None = None) -> str:
    """The name of an authority; of further ones of a database with the moment when it was made.

    A common name has at most 64 characters (X.520).
    """
    name = f"Grampus CA of {database}"
    return name if made_at is None else f"{name} {made_at:%Y%m%dT%H%M%S}"


def name_replica_authority(primary: str) -> str:
    """The name of the authority of all replicas of a database, as `name_authority`."""
    return f"Grampus CA of replicas of {primary}"


def parse_named_addresses(text: str) -> set[str]:
    """IPv4 addresses that a certificate names, from `openssl x509 -ext subjectAltName`."""
    return set(_NAMED.findall(text))


def _lacks_names(host: Host, plan: InstancePlan, names: Collection[str]) -> bool:
    file = str(plan.tls_dir / SERVER_CERTIFICATE)
    argv = ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", file]
    named = parse_named_addresses(host.run(argv, check=False).stdout)
    return not {plan.address, *names} <= named


def _begin(
    host: Host,
    plan: InstancePlan,
    place: PurePosixPath,
    authority: Authority | None,
    names: Collection[str],
) -> PurePosixPath:
    """A directory to make certificates in that go to `place`, where nothing half made is left."""
    making = plan.directory / "tls.new"
    host.run(
        in_one_shell(
            ["rm", "-rf", str(making), str(place)],
            ["install", "-d", "-m", "0700", str(making)],
        )
    )
    addresses = [plan.address, *([plan.endpoint_address] if plan.endpoint_address else [])]
    addresses += [name for name in names if name not in addresses]
    host.write_file(making / "openssl.cnf", render_openssl_conf(addresses))
    if authority is not None:
        host.write_file(making / AUTHORITIES, authority.certificate, mode=0o600)
        host.write_file(making / _AUTHORITY_KEY, authority.key.get_secret_value(), mode=0o600)
    return making


def _signing_commands(
    making: PurePosixPath, database: str, authority: str | None
) -> list[list[str]]:
    """`authority` is the name of the one to make; None: it is there."""
    return [
        *([] if authority is None else [_certificate_argv(making, "ca", authority)]),
        _certificate_argv(making, "server", database),
        _certificate_argv(making, "client", f"client of {database}"),
        ["rm", "-f", str(making / _AUTHORITY_KEY), str(making / "openssl.cnf")],
    ]


def _finishing_commands(making: PurePosixPath, place: PurePosixPath) -> list[list[str]]:
    return [
        ["chown", "-R", f"{MYSQL_UID}:{MYSQL_GID}", str(making)],
        ["chmod", "-R", "u=rwX,go=", str(making)],
        ["mv", "-T", str(making), str(place)],
    ]


def render_openssl_conf(addresses: Sequence[str]) -> str:
    """What the certificates may be used for, as `openssl req` reads it (config(5ssl)).

    `addresses` are the server's; without any, it is for an authority alone.
    """
    names = ", ".join(f"IP:{address}" for address in addresses) or "DNS:invalid"
    return f"""[req]
distinguished_name = name
prompt = no
[name]
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {names}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
"""


def _certificate_argv(
    directory: PurePosixPath, section: str, common_name: str, valid_days: int = VALID_DAYS
) -> list[str]:
    stem = "ca" if section == "ca" else f"{section}-cert"
    signed = (
        []
        if section == "ca"
        else ["-CA", str(directory / AUTHORITIES), "-CAkey", str(directory / _AUTHORITY_KEY)]
    )
    return [
        "openssl",
        "req",
        "-x509",
        "-config",
        str(directory / "openssl.cnf"),
        "-extensions",
        section,
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-noenc",
        "-days",
        str(valid_days),
        "-subj",
        f"/CN={common_name}",
        *signed,
        "-keyout",
        str(directory / f"{section}-key.pem"),
        "-out",
        str(directory / f"{stem}.pem"),
    ]
