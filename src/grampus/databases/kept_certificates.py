"""Copies of a server's certificates beside its passwords: a host that is lost takes its own away.

With them, the server shows the same certificate on another host, and no client has to be told.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from pydantic import SecretStr

from grampus.core.shell import in_one_shell
from grampus.databases.certificates import SERVER_CERTIFICATE, TLS_FILES
from grampus.databases.credentials import KeptCertificates
from grampus.databases.layout import MYSQL_GID, MYSQL_UID, InstancePlan
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host


def keep_certificates(ports: StepPorts, host: Host, plan: InstancePlan) -> None:
    """Keep copies of what lies on the host, if that is whole and differs from what is kept."""
    found = KeptCertificates(tls=_read(host, plan.tls_dir), next_tls=_read(host, plan.next_tls_dir))
    if found.tls and found != ports.credentials.find_certificates(plan.database):
        ports.credentials.keep_certificates(plan.database, found)


def place_certificates(ports: StepPorts, host: Host, plan: InstancePlan) -> bool:
    """Write the copies to the host, in place of any there; False: none were kept."""
    kept = ports.credentials.find_certificates(plan.database)
    if kept is None:
        return False
    # Those that an earlier switch left there are not this database's any more.
    host.run(["rm", "-rf", str(plan.tls_dir), str(plan.next_tls_dir)])
    for directory, files in ((plan.tls_dir, kept.tls), (plan.next_tls_dir, kept.next_tls)):
        if files:
            _write(host, directory, files)
    return True


def _read(host: Host, directory: PurePosixPath) -> dict[str, SecretStr]:
    """The files of certificates that are whole, or nothing."""
    if host.read_file(directory / SERVER_CERTIFICATE) is None:
        return {}
    found = {name: host.read_file(directory / name) for name in TLS_FILES}
    files = {name: SecretStr(content) for name, content in found.items() if content is not None}
    return files if len(files) == len(TLS_FILES) else {}


def _write(host: Host, directory: PurePosixPath, files: dict[str, SecretStr]) -> None:
    owner = ["-o", str(MYSQL_UID), "-g", str(MYSQL_GID)]
    host.run(
        in_one_shell(
            ["install", "-d", "-m", "0750", "-o", "0", "-g", str(MYSQL_GID), str(directory.parent)],
            ["install", "-d", "-m", "0700", *owner, str(directory)],
        )
    )
    for name in TLS_FILES:  # the server's certificate last: with it, they count as whole
        content = files[name].get_secret_value()
        host.write_file(directory / name, content, mode=0o600, uid=MYSQL_UID, gid=MYSQL_GID)
