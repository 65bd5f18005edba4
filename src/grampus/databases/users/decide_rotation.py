"""The SQL that rotates the passwords of a database's own accounts. All pure."""

from __future__ import annotations

from collections.abc import Collection

from grampus.databases.accounts import ADMIN_USER, PORT_HOST, SOCKET_HOST
from grampus.databases.credentials import Credentials
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_users import render_either_password

_ADMIN = f"'{ADMIN_USER}'@'{SOCKET_HOST}'"
_ADMIN_AT_PORT = f"'{ADMIN_USER}'@'{PORT_HOST}'"
# These accounts are no transactions of the instance: a recovery to a point in time would else
# bring back passwords that are on file nowhere.
_UNLOGGED = "SET SESSION sql_log_bin = 0;\n"

ADMIN_HOSTS_SQL = f"SELECT Host FROM mysql.user WHERE User = '{ADMIN_USER}';\n"  # noqa: S608


def parse_admin_hosts(rows: Collection[tuple[str, ...]]) -> frozenset[str]:
    """Which accounts the administrator has, of what ADMIN_HOSTS_SQL answered.

    A server that an earlier release started last has none for the administrative port.
    """
    return frozenset(row[0] for row in rows if row)


def render_rotate_sql(
    flavour: FlavourName, following: Credentials, current: Credentials, hosts: Collection[str]
) -> str:
    """SQL after which the owner and the administrator take their next and current passwords.

    `hosts` are those of the administrator's accounts. MySQL's statement changes all or none;
    MariaDB changes the administrator after the owner, so whether its next password works says
    whether the owner's does. `render_discard_sql` gives each account the password on file anyway.
    """
    owner, admin = following.password, following.admin_password
    admins = [_ADMIN, *([_ADMIN_AT_PORT] if PORT_HOST in hosts else [])]
    if flavour == "mysql":
        changes = [
            f"{account} IDENTIFIED BY '{admin.get_secret_value()}' RETAIN CURRENT PASSWORD"
            for account in admins
        ]
        return (
            f"{_UNLOGGED}ALTER USER {_owner(current)} IDENTIFIED BY '{owner.get_secret_value()}' "
            f"RETAIN CURRENT PASSWORD, {', '.join(changes)};\n"
        )
    owners = render_either_password(owner.get_secret_value(), current.password.get_secret_value())
    either = render_either_password(
        admin.get_secret_value(), current.admin_password.get_secret_value()
    )
    changed = "".join(f"ALTER USER {account} {either};\n" for account in admins)
    return f"{_UNLOGGED}ALTER USER {_owner(current)} {owners};\n{changed}"


def render_discard_sql(flavour: FlavourName, current: Credentials, *, of_owner: bool) -> str:
    """SQL after which the administrator, and the owner if asked, take their current password alone.

    It may be repeated. The account for the port gets that password once more: if a rotation was cut
    off, a start in between may have made the account with the former one.
    """
    password, admin = current.password, current.admin_password.get_secret_value()
    at_port = f"ALTER USER IF EXISTS {_ADMIN_AT_PORT} IDENTIFIED BY '{admin}';\n"
    if flavour == "mysql":
        owner = f"{_owner(current)} DISCARD OLD PASSWORD, " if of_owner else ""
        return (
            f"{_UNLOGGED}{at_port}"
            f"ALTER USER IF EXISTS {_ADMIN_AT_PORT} DISCARD OLD PASSWORD;\n"
            f"ALTER USER {owner}{_ADMIN} DISCARD OLD PASSWORD;\n"
        )
    owner = (
        f"ALTER USER {_owner(current)} IDENTIFIED BY '{password.get_secret_value()}';\n"
        if of_owner
        else ""
    )
    return f"{_UNLOGGED}{owner}{at_port}ALTER USER {_ADMIN} IDENTIFIED BY '{admin}';\n"


def _owner(credentials: Credentials) -> str:
    return f"'{credentials.user}'@'%'"
