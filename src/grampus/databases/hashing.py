"""MD5() and SHA1() of MySQL 9: a component of the server, which users cannot install.

Without it both fail with `No database selected` (1046). It is recorded in `mysql.component`, so it
is there again after each start and in each copy of the data directory. `INSTALL COMPONENT` is in no
binary log (tried with MySQL 9.7.4), so every server installs it for itself. `--initialize` cannot
install one, and takes the row (`first_tables`).
"""

from __future__ import annotations

from grampus.databases.administrator import Administrator
from grampus.databases.first_tables import HASHING_COMPONENT
from grampus.databases.read_only import writing_as_administrator
from grampus.databases.upgrades.decide_server import parse_version

# Older servers have both functions built in.
_SINCE = (9,)
OBSERVE_SQL = (
    "SELECT VERSION(), COUNT(*) FROM mysql.component "
    "WHERE component_urn = 'file://component_classic_hashing'"
)
INSTALL_SQL = f"SET SESSION sql_log_bin = 0; INSTALL COMPONENT '{HASHING_COMPONENT}'"
# It waits for nobody: the disk may be full.
INSTALL_TIMEOUT_S = 15.0


def lacks_hashing(administrator: Administrator) -> bool:
    """Whether the server has such a component and has not installed it."""
    if administrator.flavour != "mysql":
        return False
    [(version, installed)] = administrator.query(OBSERVE_SQL)
    return installed == "0" and parse_version(version) >= _SINCE


def install_hashing(administrator: Administrator, *, is_replica: bool) -> None:
    """To be asked of a server that lacks it."""
    with writing_as_administrator(administrator, is_replica=is_replica):
        administrator.query(INSTALL_SQL, timeout_s=INSTALL_TIMEOUT_S)
