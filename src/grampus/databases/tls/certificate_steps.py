"""New certificates of a database's server, as steps of two operations.

The key of the former authority is gone, so it can vouch for nothing new: whoever trusts it alone is
refused by a server with a new certificate. Hence a rotation only makes the new ones and lets
everybody trust both authorities; the server goes on with the former certificate. A retirement, once
clients have been told, lets the server take the new one, and only then is the former authority
trusted no longer. What lies on the host says how far it is.
"""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from pydantic import ConfigDict

from grampus.core.errors import GrampusError
from grampus.core.models import Model
from grampus.core.shell import in_one_shell
from grampus.databases.administrator import administrator_of
from grampus.databases.certificates import (
    AUTHORITIES,
    SERVER_CERTIFICATE,
    ensure_next_certificates,
    newest_authority,
    require_authorities,
)
from grampus.databases.database_work import DatabaseWork
from grampus.databases.instance import observe_answer, observe_daemon_state
from grampus.databases.kept_certificates import keep_certificates
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import (
    MYSQL_GID,
    MYSQL_UID,
    InstancePlan,
    plan_instance,
    server_daemon_name,
)
from grampus.databases.model import DatabaseSpec, FlavourName
from grampus.databases.step_ports import StepPorts
from grampus.hosts.port import Host, HostUnreachableError
from grampus.state.operations import Step

# A client's error when the server's certificate is not what it trusts (CR_SSL_CONNECTION_ERROR).
_TLS_FAILED = "ERROR 2026"


class RotateCertificatesOrder(Model):
    """A rotation, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    authority: str  # the new one's name, which no other of this database has


class RetireCertificatesOrder(Model):
    """A retirement, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str


def render_reload_sql(flavour: FlavourName) -> str:
    """SQL after which new sessions get what lies in the server's files; open ones go on.

    When that is no use the server keeps what it has, and says so. It is in no binary log.
    """
    if flavour == "mysql":
        return "SET SESSION sql_log_bin = 0; ALTER INSTANCE RELOAD TLS"
    return "FLUSH NO_WRITE_TO_BINLOG SSL"


class CertificateWork:
    """What the steps of both do; every method is idempotent."""

    def __init__(self, ports: StepPorts, database: str) -> None:
        self._ports = ports
        self._database = database

    def make_next(self, authority: str) -> None:
        work = DatabaseWork(self._ports, self._spec())
        ensure_next_certificates(
            *(self._host(), self._plan(), authority, work.authority()),
            names=work.named_addresses(),
        )
        self._keep()

    def trust_both(self) -> None:
        """Whoever reads a file of Grampus trusts both authorities from now on."""
        plan = self._plan()
        both = self._host().read_file(plan.next_tls_dir / AUTHORITIES)
        if both is not None:
            self._write_authorities(both)
            self._ports.credentials.write_authorities(self._database, both)

    def trust_in_replicas(self) -> None:
        """What clients of the database trust now, replicas that run trust from now on.

        They look when they next connect. One that does not run looks when it starts.
        """
        for record in self._ports.records.followers(self._database).values():
            with contextlib.suppress(HostUnreachableError):
                spec = record.spec
                if self._is_running(spec):
                    DatabaseWork(self._ports, spec).trust_primary()

    def put_in_place(self) -> None:
        host, plan = self._host(), self._plan()
        if host.read_file(plan.next_tls_dir / SERVER_CERTIFICATE) is None:
            return  # they are already
        host.run(
            in_one_shell(
                ["rm", "-rf", str(plan.tls_dir)],
                ["mv", "-T", str(plan.next_tls_dir), str(plan.tls_dir)],
            )
        )
        self._keep()

    def reload(self) -> None:
        """A server that does not run reads its files when it starts."""
        spec = self._spec()
        if self._is_running(spec):
            administrator_of(self._ports, spec).query(render_reload_sql(spec.flavour))

    def trust_new_alone(self) -> None:
        """The owner's option file on the host, and with it our own logins, know the new one alone.

        Raises GrampusError with code `certificate-refused` when the server shows another.
        """
        spec, plan = self._spec(), self._plan()
        self._write_authorities(newest_authority(require_authorities(self._host(), plan)))
        if self._is_running(spec) and _TLS_FAILED in observe_answer(self._host(), plan).said:
            raise GrampusError(
                f"The server of {self._database} does not show its new certificate.",
                f"`grampus db restart {self._database}` makes the server read its files. "
                "Clients that trust both authorities can still connect.",
                code="certificate-refused",
            )

    def forget_former(self) -> None:
        authorities = require_authorities(self._host(), self._plan())
        self._ports.credentials.write_authorities(self._database, authorities)
        self.trust_in_replicas()
        self.reload()

    def _write_authorities(self, authorities: str) -> None:
        path = self._plan().tls_dir / AUTHORITIES
        self._host().write_file(path, authorities, mode=0o600, uid=MYSQL_UID, gid=MYSQL_GID)
        self._keep()

    def _keep(self) -> None:
        """Copies of the certificates as they are now, for the day when their host is lost."""
        keep_certificates(self._ports, self._host(), self._plan())

    def _is_running(self, spec: DatabaseSpec) -> bool:
        host = self._ports.fleet.host(spec.host)
        return observe_daemon_state(host, server_daemon_name(spec.name)) == "running"

    def _host(self) -> Host:
        return self._ports.fleet.host(self._spec().host)

    def _plan(self) -> InstancePlan:
        return names_of(self._ports, self._spec())

    def _spec(self) -> DatabaseSpec:
        return self._ports.records.get(self._database).spec


def names_of(ports: StepPorts, spec: DatabaseSpec) -> InstancePlan:
    """The instance on its host, for what does not depend on the volume."""
    data_dir = ports.fleet.host(spec.host).data_dir
    return plan_instance(spec, data_dir, PurePosixPath("/nonexistent"))


def _rotate_steps(ports: StepPorts, order: RotateCertificatesOrder) -> list[Step]:
    work = CertificateWork(ports, order.database)
    return [
        Step(
            "make",
            "Create a new authority and certificates, which the server does not show yet",
            lambda: work.make_next(order.authority),
        ),
        Step("trust", "Publish both authorities for clients", work.trust_both),
        Step("replicas", "Trust both authorities on its replicas", work.trust_in_replicas),
    ]


def _retire_steps(ports: StepPorts, order: RetireCertificatesOrder) -> list[Step]:
    work = CertificateWork(ports, order.database)
    return [
        Step("replicas", "Check that its replicas trust both authorities", work.trust_in_replicas),
        Step("place", "Replace the former certificates by the new ones", work.put_in_place),
        Step(
            "reload",
            "Load the new certificates into the server; open sessions continue",
            work.reload,
        ),
        Step("trust", "Trust only the new authority on its host", work.trust_new_alone),
        Step("forget", "Remove the former authority everywhere", work.forget_former),
    ]


ROTATE_CERTIFICATES = DatabaseOperation(
    kind="db.certificate-rotate",
    what="rotation of the certificates of the database",
    document=RotateCertificatesOrder,
    build=_rotate_steps,
    subject=lambda order: order.database,
    when_cut_off="finish",
    goes_with_database=True,
)
RETIRE_CERTIFICATES = DatabaseOperation(
    kind="db.certificate-retire",
    what="retirement of the former certificates of the database",
    document=RetireCertificatesOrder,
    build=_retire_steps,
    subject=lambda order: order.database,
    when_cut_off="finish",
    goes_with_database=True,
)
