"""What the server of a copied data directory may lack, looked for by one client.

Each client takes a tenth of a second, for which whoever waits for a clone would wait.
"""

from __future__ import annotations

from grampus.core.errors import GrampusError
from grampus.databases.account_upgrade import ensure_accounts
from grampus.databases.accounts import ACCOUNTS_SQL
from grampus.databases.administrator import REFUSALS, Row, administrator_of
from grampus.databases.application_support import OBSERVE_SQL, has_hashing, support_applications
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts

LOOK_SQL = f"{OBSERVE_SQL}; {ACCOUNTS_SQL}"


def complete_copied_server(ports: StepPorts, spec: DatabaseSpec) -> None:
    """The server as `support_applications` and `ensure_accounts` leave it, which raise the same."""
    if _is_complete(ports, spec):
        return
    support_applications(ports, spec)
    ensure_accounts(ports, spec)


def _is_complete(ports: StepPorts, spec: DatabaseSpec) -> bool:
    """Whether it lacks nothing; False also when it does not say."""
    if spec.flavour != "mysql":
        return False  # there is one look alone
    try:
        return decide_complete(administrator_of(ports, spec).query(LOOK_SQL))
    except GrampusError as error:
        if error.code not in REFUSALS:
            raise
        return False


def decide_complete(rows: list[Row]) -> bool:
    """What the answers to `LOOK_SQL` say; anything unexpected is looked at once more."""
    if [len(row) for row in rows] != [2, 1]:
        return False
    (version, installed), (accounts,) = rows
    return has_hashing(version, installed) and accounts == "1"
