"""The accounts of a server that an earlier release made, brought up to date when it starts.

What they lack is asked of the server, not of the state: an older snapshot or backup brings older
accounts back. A start does not fail because of it (INV-72): the next one tries again.
"""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.accounts import ACCOUNTS_SQL, render_account_upgrade_sql
from grampus.databases.administrator import REFUSALS, administrator_of
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.secret_statements import (
    AccessDeniedError,
    SecretStatements,
    SqlError,
    secret_statements,
)

_PASSED_OVER = REFUSALS | {SqlError.default_code, AccessDeniedError.default_code}
# A replica of MySQL lets not even its administrator write. Its users cannot meanwhile either:
# `read_only` stays on.
_OPEN, _CLOSE = "SET GLOBAL super_read_only = OFF;", "SET GLOBAL super_read_only = ON;"


def ensure_accounts(ports: StepPorts, spec: DatabaseSpec) -> None:
    """The accounts of the database's server, which runs, as this release makes them.

    What the server refuses is noted and passed over. Raises GrampusError with code
    `secrets-missing`, and HostUnreachableError.
    """
    try:
        if administrator_of(ports, spec).query(ACCOUNTS_SQL) == [("1",)]:
            return
        _bring_up_to_date(secret_statements(ports, spec), ports, spec)
    except GrampusError as error:
        if error.code not in _PASSED_OVER:
            raise
        ports.progress.note(
            f"The accounts of {spec.name} are still those of an earlier release: {error.problem} "
            "The next start tries again."
        )


def _bring_up_to_date(server: SecretStatements, ports: StepPorts, spec: DatabaseSpec) -> None:
    credentials = ports.credentials.load(spec.name)
    sql = render_account_upgrade_sql(
        spec.flavour, admin_password=credentials.admin_password.get_secret_value()
    )
    is_closed = spec.flavour == "mysql" and spec.replica_of is not None
    if not is_closed:
        server.run(sql)
        return
    try:
        server.run(f"{_OPEN}\n{sql}")
    finally:
        server.run(_CLOSE)
