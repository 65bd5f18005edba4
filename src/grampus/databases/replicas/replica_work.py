"""What the steps of operations on one replica do; every method is idempotent.

Nobody keeps the password that a replica follows with: whoever lets it follow makes a new one, and
tells the two servers.
"""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from grampus.core.clock import wait_until
from grampus.core.errors import GrampusError
from grampus.databases.accounts import is_replica_account
from grampus.databases.administrator import Administrator, administrator_of
from grampus.databases.certificates import make_authority, name_replica_authority
from grampus.databases.credentials import new_password
from grampus.databases.database_work import DatabaseWork
from grampus.databases.instance import observe_daemon_state
from grampus.databases.layout import (
    PRIMARY_AUTHORITIES,
    VOLUME_IN_DAEMON,
    database_directory,
    server_daemon_name,
)
from grampus.databases.model import DatabaseSpec, PromotedEvents, ReadEndpoint
from grampus.databases.replicas.events import enable_events
from grampus.databases.replicas.gtid_sets import count_missing, parse_gtid_set
from grampus.databases.replicas.replication_sql import (
    Position,
    Replication,
    account_of,
    parse_position,
    parse_replication,
    render_account_sql,
    render_accounts_sql,
    render_drop_accounts_sql,
    render_follow_sql,
    render_independence_sql,
    render_position_sql,
    render_receive_sql,
    render_replication_sql,
    render_stop_receiving_sql,
)
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.answering import ensure_answering
from grampus.databases.users.secret_statements import secret_statements
from grampus.hosts.port import Host, HostUnreachableError

CONNECT_TIMEOUT_S = 60.0
# What a busy primary wrote since a renewal, or what one that is far behind has yet to apply.
APPLY_TIMEOUT_S = 3600.0


class ReplicaWork:
    """What the steps of one replica do."""

    def __init__(self, ports: StepPorts, spec: DatabaseSpec, primary: str) -> None:
        """`spec` is the replica's own."""
        self._ports = ports
        self._spec = spec
        self._primary = primary
        self._account = account_of(spec.server_id)

    # -- the endpoint it may be behind --------------------------------------------------------

    def ensure_endpoint(self) -> None:
        """Its primary has a read-only endpoint, and what signs certificates of its replicas."""
        records, spec = self._ports.records, self._spec
        if spec.held_endpoint is not None and records.find_read_endpoint(self._primary) is None:
            # At the address of whatever host serves it; until then it is that of the replica.
            address = spec.endpoint_address or spec.address
            named = "" if spec.endpoint_port is None else address
            made = ReadEndpoint(address=address, port=spec.endpoint_port, named=named)
            records.put_read_endpoint(self._primary, made)
        credentials = self._ports.credentials
        if credentials.find_replica_authority(self._primary) is None:
            name = name_replica_authority(self._primary)
            authority = make_authority(self._host(), self._making_place(), name)
            credentials.put_replica_authority(self._primary, authority)

    def remove_endpoint(self) -> None:
        """As if it had never been made, unless another replica uses it by now."""
        if self._ports.records.followers(self._primary).keys() - {self._spec.name}:
            return
        self._host().run(["rm", "-rf", str(self._making_place())])
        self._ports.credentials.ensure_replica_authority_absent(self._primary)
        self._ports.records.remove_read_endpoint(self._primary)

    def _making_place(self) -> PurePosixPath:
        return database_directory(self._host().data_dir, self._spec.name) / "authority"

    def _host(self) -> Host:
        return self._ports.fleet.host(self._spec.host)

    # -- following ----------------------------------------------------------------------------

    def follow(self, *, waits: bool = True) -> None:
        """The replica receives from its primary what it lacks, or is about to unless it `waits`.

        Raises GrampusError with code `primary-not-running`, `too-far-behind` or `timeout`.
        """
        primary = self._require_primary()
        self._trust(primary)
        password = new_password().get_secret_value()
        self._drop_accounts(primary, keeps_own=True)
        sql = render_account_sql(primary.flavour, self._account, password)
        secret_statements(self._ports, primary).run(sql)
        follow = render_follow_sql(
            self._spec.flavour,
            address=primary.address,
            port=primary.port,
            account=self._account,
            password=password,
            ca_file=str(VOLUME_IN_DAEMON / PRIMARY_AUTHORITIES),
        )
        secret_statements(self._ports, self._spec).run(follow)
        if waits:
            wait_until(
                self._ports.clock,
                self._is_receiving,
                what=f"{self._spec.name} to be connected to {self._primary}",
                remedy=f"`grampus db replica list {self._primary}` shows the state of its server.",
                timeout_s=CONNECT_TIMEOUT_S,
                interval_s=0.2,
            )
        self._keep_what_it_follows()

    def forget_account(self) -> None:
        """The account at the primary gone, if that one can be asked.

        One that cannot keeps an account whose password nobody has, until the next replica is made.
        """
        record = self._ports.records.find(self._primary)
        if record is None:
            return
        with contextlib.suppress(HostUnreachableError):
            if self._is_running(record.spec):
                self._drop_accounts(record.spec, keeps_own=False)

    def note_renewed(self) -> None:
        self._ports.records.change(self._spec.name, renewed_at=self._ports.clock.now())

    # -- letting go ---------------------------------------------------------------------------

    def catch_up(self, position: str) -> None:
        """All transactions of `position` applied, while it goes on to receive.

        Raises GrampusError with code `cannot-apply` or `timeout`.
        """
        ensure_answering(self._ports, self._spec)
        if self.observe_replication() is not None:
            self._await_applied(position)

    def apply_received(self) -> None:
        """Nothing more is received, and all that was is applied.

        Raises GrampusError with code `cannot-apply` or `timeout`.
        """
        ensure_answering(self._ports, self._spec)
        if self.observe_replication() is None:
            return  # it let go before
        self._administrator().query(render_stop_receiving_sql(self._spec.flavour))
        replication = self.observe_replication()
        if replication is not None:
            self._await_applied(replication.received)

    def receive_again(self) -> None:
        ensure_answering(self._ports, self._spec)
        if self.observe_replication() is not None:
            self._administrator().query(render_receive_sql(self._spec.flavour))

    def let_go(self) -> None:
        """The server follows nobody, and its users may write."""
        ensure_answering(self._ports, self._spec)
        spec = self._spec
        self._administrator().query(render_independence_sql(spec.flavour, spec.parameters))
        # No binary log has it, and a crash must not make it follow again.
        self._ports.volumes.ensure_durable(spec.name)

    def enable_events(self) -> None:
        """Its events have the status that they had in its primary, and what was done is noted.

        May be repeated: what it did before stays told.
        """
        ensure_answering(self._ports, self._spec)
        records, name = self._ports.records, self._spec.name
        done = enable_events(self._ports, self._spec, self._primary)
        before = records.promoted_events(records.get(name))
        both = PromotedEvents(
            filled=before.filled,
            enabled=tuple(sorted({*before.enabled, *done.enabled})),
            disabled=tuple(sorted({*before.disabled, *done.disabled})),
            unknown=done.unknown,
        )
        if both != before:
            records.put_promoted_events(name, both)

    # -- looking ------------------------------------------------------------------------------

    def observe_replication(self) -> Replication | None:
        """What the replica's server says; None: it follows nobody."""
        return observe_replication(self._administrator())

    # -- inside -------------------------------------------------------------------------------

    def _await_applied(self, wanted: str) -> None:
        flavour, administrator = self._spec.flavour, self._administrator()
        transactions = parse_gtid_set(flavour, wanted)

        def is_applied() -> bool:
            executed = observe_position(administrator).executed
            if count_missing(transactions, parse_gtid_set(flavour, executed)) == 0:
                return True
            replication = observe_replication(administrator)
            if replication is None or not replication.applying:
                said = replication.apply_error if replication else "it follows no primary"
                raise GrampusError(
                    f"The replica {self._spec.name} cannot apply all received transactions: "
                    f"{(said or 'its replication was stopped').rstrip('.')}.",
                    f"Renew the replica: `grampus db replica renew {self._spec.name}`.",
                    code="cannot-apply",
                )
            return False

        wait_until(
            self._ports.clock,
            is_applied,
            what=f"{self._spec.name} to apply the received transactions",
            remedy=f"`grampus db replica list {self._primary}` shows its progress.",
            timeout_s=APPLY_TIMEOUT_S,
            interval_s=0.2,
        )

    def _is_receiving(self) -> bool:
        replication = self.observe_replication()
        if replication is None or replication.receiving == "connecting":
            return False
        if replication.lacks_binlogs:
            raise GrampusError(
                f"{self._primary} no longer has the binary logs that {self._spec.name} needs "
                "to start.",
                "Remove --snapshot, or choose a newer one.",
                code="too-far-behind",
            )
        if replication.receiving == "off":
            raise GrampusError(
                f"The replica {self._spec.name} cannot follow {self._primary}: "
                f"{replication.receive_error.rstrip('.') or 'its server gives no reason'}.",
                "Fix the error above, then renew the replica: `grampus db replica renew "
                f"{self._spec.name}`.",
                code="cannot-follow",
            )
        return True

    def _require_primary(self) -> DatabaseSpec:
        primary = self._ports.records.get(self._primary).spec
        if not self._is_running(primary):
            raise GrampusError(
                f"The database {self._primary} is not running, so it cannot have a new replica.",
                f"Start the database (`grampus db start {self._primary}`), then try again.",
                code="primary-not-running",
            )
        return primary

    def _trust(self, primary: DatabaseSpec) -> None:
        if not DatabaseWork(self._ports, self._spec).trust_primary():
            raise GrampusError(
                f"The certificates of {self._primary} are missing on {primary.host}.",
                f"`grampus db restart {self._primary}` creates new certificates. Then try again.",
            )

    def _keep_what_it_follows(self) -> None:
        """MariaDB has it in files that it leaves to the system (`sync_master_info`): after a crash
        of the host it followed nobody. Later on they are overwritten in place. MySQL has it in
        tables."""
        if self._spec.flavour == "mariadb":
            volume = DatabaseWork(self._ports, self._spec).plan().volume
            self._host().run(["sync", "--file-system", str(volume)])

    def _drop_accounts(self, primary: DatabaseSpec, *, keeps_own: bool) -> None:
        """The replica's own, and those of replicas that are gone."""
        followers = [one.spec for one in self._ports.records.followers(self._primary).values()]
        kept = {account_of(spec.server_id) for spec in followers} - {self._account}
        if keeps_own:
            kept.add(self._account)
        rows = administrator_of(self._ports, primary).query(render_accounts_sql())
        gone = sorted({row[0] for row in rows if is_replica_account(row[0])} - kept)
        if gone:
            secret_statements(self._ports, primary).run(render_drop_accounts_sql(gone))

    def _is_running(self, spec: DatabaseSpec) -> bool:
        host = self._ports.fleet.host(spec.host)
        return observe_daemon_state(host, server_daemon_name(spec.name)) == "running"

    def _administrator(self) -> Administrator:
        return administrator_of(self._ports, self._spec)


def observe_replication(administrator: Administrator) -> Replication | None:
    """What a running server says of its replication; None: it follows nobody."""
    flavour = administrator.flavour
    return parse_replication(administrator.query(render_replication_sql(flavour)))


def observe_position(administrator: Administrator) -> Position:
    """Which transactions a running server has."""
    return parse_position(administrator.query(render_position_sql(administrator.flavour)))
