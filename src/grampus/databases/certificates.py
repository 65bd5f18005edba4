"""Certificates of one instance: its own authority, a server and a client certificate."""

from __future__ import annotations

from pathlib import PurePosixPath

from grampus.core.shell import in_one_shell
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, InstancePlan
from grampus.hosts.port import Host

VALID_DAYS = 3650


def ensure_certificates(host: Host, plan: InstancePlan) -> None:
    """Make the instance's certificates unless they are there.

    They are made beside their place and moved there whole. The authority's key is thrown away
    once both certificates are signed: nobody can ever forge another, and new certificates come
    with a new authority. The client certificate is for clients that cannot do TLS without one
    (sysbench 1.0); it proves nothing to the server.

    Raises CommandFailedError when `openssl` fails on the host.
    """
    if host.read_file(plan.tls_dir / "server-cert.pem") is not None:
        return
    making = plan.directory / "tls.new"
    host.run(
        in_one_shell(
            ["rm", "-rf", str(making), str(plan.tls_dir)],
            ["install", "-d", "-m", "0700", str(making)],
        )
    )
    host.write_file(making / "openssl.cnf", render_openssl_conf(plan.address))
    host.run(
        in_one_shell(
            _certificate_argv(making, "ca", f"Grampus CA of {plan.database}"),
            _certificate_argv(making, "server", plan.database),
            _certificate_argv(making, "client", f"client of {plan.database}"),
            ["rm", "-f", str(making / "ca-key.pem"), str(making / "openssl.cnf")],
            ["chown", "-R", f"{MYSQL_UID}:{MYSQL_GID}", str(making)],
            ["chmod", "-R", "u=rwX,go=", str(making)],
            ["mv", "-T", str(making), str(plan.tls_dir)],
        )
    )


def render_openssl_conf(address: str) -> str:
    """What the certificates may be used for, as `openssl req` reads it (config(5ssl))."""
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
subjectAltName = IP:{address}
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
"""


def _certificate_argv(directory: PurePosixPath, section: str, common_name: str) -> list[str]:
    stem = "ca" if section == "ca" else f"{section}-cert"
    signed = (
        []
        if section == "ca"
        else ["-CA", str(directory / "ca.pem"), "-CAkey", str(directory / "ca-key.pem")]
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
        str(VALID_DAYS),
        "-subj",
        f"/CN={common_name}",
        *signed,
        "-keyout",
        str(directory / f"{section}-key.pem"),
        "-out",
        str(directory / f"{stem}.pem"),
    ]
