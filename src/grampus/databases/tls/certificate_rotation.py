"""New certificates for a database's server, while it runs and its clients go on."""

from __future__ import annotations

from pathlib import Path

from grampus.core.errors import GrampusError, RefusedError
from grampus.databases.certificates import SERVER_CERTIFICATE, name_authority
from grampus.databases.kept_certificates import keep_certificates
from grampus.databases.model import DatabaseRecord
from grampus.databases.operating import DatabaseOperations
from grampus.databases.tls.certificate_steps import (
    RETIRE_CERTIFICATES,
    ROTATE_CERTIFICATES,
    RetireCertificatesOrder,
    RotateCertificatesOrder,
    names_of,
)
from grampus.databases.tls.decide_expiry import CertificateState, parse_expiry
from grampus.hosts.port import HostUnreachableError


class CertificateRotation:
    """Certificates of the databases of one lab or cluster."""

    def __init__(self, operations: DatabaseOperations) -> None:
        self._operations = operations

    def _plan(self, name: str) -> RotateCertificatesOrder:
        if self._is_rotated(self._reachable(name)):
            raise RefusedError(
                f"The certificates of {name} were rotated, and the former ones are still in use.",
                f"Give the clients {self.authorities_file(name)}, then run `grampus db "
                f"certificate retire {name}`. After that, a new rotation is possible.",
                code="not-retired",
            )
        made_at = self._operations.clock.now()
        return RotateCertificatesOrder(database=name, authority=name_authority(name, made_at))

    def rotate(self, name: str) -> CertificateState | None:
        """Make new certificates, and let whoever reads a file of Grampus trust both authorities.

        The server shows the former one until `retire`. Cut off, the next command finishes it.
        Raises NotFoundError, HostUnreachableError, and RefusedError with code `not-ready`, or
        `not-retired` after another one.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(ROTATE_CERTIFICATES, self._plan(name))
            return self.observe(self._operations.records.get(name))

    def _plan_retire(self, name: str) -> RetireCertificatesOrder:
        if not self._is_rotated(self._reachable(name)):
            raise RefusedError(
                f"The certificates of {name} were not rotated, so there are none to retire.",
                f"`grampus db certificate rotate {name}` creates new ones first.",
                code="not-rotated",
            )
        for follower, record in self._operations.records.followers(name).items():
            if record.desired == "running":
                self._operations.require_reachable(record.spec.host, follower)
        return RetireCertificatesOrder(database=name)

    def retire(self, name: str) -> CertificateState | None:
        """Let the server show its new certificate, and nobody trust the former authority.

        Open sessions go on. Cut off, the next command finishes it. Raises NotFoundError,
        HostUnreachableError, also for a replica that shall run, RefusedError with code `not-ready`,
        or `not-rotated` when there are no new ones, and GrampusError with code
        `certificate-refused`.
        """
        with self._operations.locked(name):
            self._operations.settle(name)
            self._operations.run(RETIRE_CERTIFICATES, self._plan_retire(name))
            return self.observe(self._operations.records.get(name))

    def observe(self, record: DatabaseRecord) -> CertificateState | None:
        """The certificate that its server shows; None: its host is away, or there is none.

        Raises GrampusError when the host cannot read it.
        """
        if not self._operations.fleet.is_reachable(record.spec.host):
            return None
        host = self._operations.fleet.host(record.spec.host)
        file = names_of(self._operations.ports, record.spec).tls_dir / SERVER_CERTIFICATE
        if host.read_file(file) is None:
            return None
        argv = ["openssl", "x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in", str(file)]
        expires_at = parse_expiry(host.run(argv).stdout)
        return CertificateState(expires_at=expires_at, is_rotated=self._is_rotated(record))

    def all(self) -> dict[str, CertificateState | GrampusError]:
        """The certificates of all databases whose hosts can be reached, or why they are unknown."""
        found: dict[str, CertificateState | GrampusError] = {}
        for name, record in sorted(self._operations.records.all().items()):
            try:
                state = self.observe(record) if record.phase == "ready" else None
            except HostUnreachableError:
                continue
            except GrampusError as error:
                found[name] = error
                continue
            if state is not None:
                found[name] = state
        return found

    def keep_copies(self) -> None:
        """Keep copies of all certificates on hosts that can be reached, for a failover.

        A database gets one at each start; one that has run since an earlier release has none.
        """
        for record in self._operations.records.all().values():
            if record.phase != "ready":
                continue
            if self._operations.fleet.is_reachable(record.spec.host):
                ports = self._operations.ports
                host = self._operations.fleet.host(record.spec.host)
                keep_certificates(ports, host, names_of(ports, record.spec))

    def authorities_file(self, name: str) -> Path:
        """What clients are to trust, as `ssl-ca`; on this machine."""
        return self._operations.credentials.ca_file(name)

    def _reachable(self, name: str) -> DatabaseRecord:
        record = self._operations.ready(name)
        self._operations.require_reachable(record.spec.host, record.spec.name)
        return record

    def _is_rotated(self, record: DatabaseRecord) -> bool:
        host = self._operations.fleet.host(record.spec.host)
        names = names_of(self._operations.ports, record.spec)
        return host.read_file(names.next_tls_dir / SERVER_CERTIFICATE) is not None
