"""A server that nobody but Grampus can reach, in which a data directory is upgraded.

It listens on no network: what fails here can be rolled back without losing a row, because no
client can have written one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import SecretStr

from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError
from grampus.databases.admin_client import render_admin_options
from grampus.databases.administrator import Administrator, StatementFailedError
from grampus.databases.application_support import support_in_upgrade
from grampus.databases.instance import last_words, observe_daemon_state
from grampus.databases.layout import InstancePlan, server_daemon
from grampus.databases.quiet_servers import quiet_options
from grampus.hosts.port import DaemonSpec, Host

# It reads and rewrites the system tables; a big dictionary takes minutes.
UPGRADE_TIMEOUT_S = 1800.0
# MySQL's server does it as it starts, and answers when it is done.
MARIADB_UPGRADE = ("mariadb-upgrade", "--defaults-file=/dev/stdin", "--force", "--silent")


def upgrade_daemon(plan: InstancePlan) -> DaemonSpec:
    """The server as it will serve, without a network."""
    daemon = server_daemon(plan)
    # No database's server is called this, whatever the database's name.
    return replace(
        daemon,
        name=f"upgrade-{daemon.name}",
        argv=(*daemon.argv, "--skip-networking", *quiet_options(plan.flavour)),
    )


@dataclass(frozen=True)
class UpgradeServer:
    """The upgrade of one data directory."""

    host: Host
    plan: InstancePlan
    clock: Clock
    password: SecretStr  # of the administrator

    def upgrade(self) -> str:
        """Start it, let it upgrade its tables, stop it; the version that it answered with.

        Raises GrampusError with code `upgrade-failed`, with what the server said, or `timeout`.
        """
        daemon = upgrade_daemon(self.plan)
        # One that was cut off may be of the former server, or half-way.
        self.host.ensure_daemon_absent(daemon.name)
        self.host.ensure_daemon(daemon)
        answers: list[str] = []

        def answered() -> bool:
            if observe_daemon_state(self.host, daemon.name) != "running":
                raise self._failed(last_words(self.host, daemon.name))
            answers.extend(self._ask(daemon.name))
            return bool(answers)

        wait_until(
            self.clock,
            answered,
            what=f"the upgrade of {self.plan.database}",
            remedy=f"Read the log of the daemon {daemon.name} on {self.host.name}.",
            timeout_s=UPGRADE_TIMEOUT_S,
            interval_s=0.2,
        )
        if self.plan.flavour == "mariadb":
            self._upgrade_tables(daemon.name)
        administrator = Administrator(self.host, daemon.name, self.plan.flavour, self.password)
        support_in_upgrade(administrator, is_replica=self.plan.is_replica)
        self.host.ensure_daemon_absent(daemon.name)
        return answers[0]

    def ensure_absent(self) -> None:
        """Nothing left of it."""
        self.host.ensure_daemon_absent(upgrade_daemon(self.plan).name, kill=True)

    def _ask(self, daemon: str) -> list[str]:
        administrator = Administrator(self.host, daemon, self.plan.flavour, self.password)
        try:
            # MariaDB adds where it was built.
            return administrator.value("VERSION()").split()[:1]
        except StatementFailedError:
            return []

    def _upgrade_tables(self, daemon: str) -> None:
        result = self.host.run(
            MARIADB_UPGRADE,
            stdin=render_admin_options(self.password, self.plan.flavour),
            timeout_s=UPGRADE_TIMEOUT_S,
            check=False,
            daemon=daemon,
        )
        if result.returncode != 0:
            said = (result.stderr.strip() or result.stdout.strip()).splitlines()
            raise self._failed(said[-1] if said else f"code {result.returncode}")

    def _failed(self, said: str) -> GrampusError:
        return GrampusError(
            f"{self.plan.database} could not be upgraded: {said.rstrip('.')}.",
            "The database is unchanged. Fix the error above, then run `grampus db upgrade "
            f"{self.plan.database} --to VERSION` again.",
            code="upgrade-failed",
        )
