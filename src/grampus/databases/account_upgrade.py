"""The accounts of a server that an earlier release made, brought up to date when it starts.

What they lack is asked of the server, not of the state: an older snapshot or backup brings older
accounts back. A start does not fail because of it (INV-72): the next one tries again.
"""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.accounts import (
    ACCOUNTS_SQL,
    render_account_upgrade_sql,
    render_upgraded_accounts_sql,
)
from grampus.databases.administrator import (
    REFUSALS,
    administrator_of,
    writing_to,
)
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.secret_statements import (
    AccessDeniedError,
    SecretStatements,
    SqlError,
    secret_statements,
)

_PASSED_OVER = REFUSALS | {SqlError.default_code, AccessDeniedError.default_code, "busy"}


def ensure_accounts(ports: StepPorts, spec: DatabaseSpec) -> None:
    """The accounts of the database's server, which runs, as this release makes them.

    What the server refuses is noted and passed over. Raises GrampusError with code
    `secrets-missing`, and HostUnreachableError.
    """
    try:
        administrator = administrator_of(ports, spec)
        if administrator.query(ACCOUNTS_SQL) == [("1",)]:
            return
        with writing_to(ports, spec, administrator):
            _bring_up_to_date(secret_statements(ports, spec), ports, spec)
    except GrampusError as error:
        if error.code not in _PASSED_OVER:
            raise
        ports.progress.note(
            f"The accounts of {spec.name} still belong to an earlier release: {error.problem} "
            "The next start tries again."
        )


def _bring_up_to_date(server: SecretStatements, ports: StepPorts, spec: DatabaseSpec) -> None:
    credentials = ports.credentials.load(spec.name)
    server.run(
        render_account_upgrade_sql(
            spec.flavour,
            admin_password=credentials.admin_password.get_secret_value(),
            found=server.run(render_upgraded_accounts_sql(credentials.user)),
        )
    )
