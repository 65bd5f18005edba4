"""The SQL that rotates the passwords of a database's own accounts. All pure."""

from __future__ import annotations

from grampus.databases.accounts import ADMIN_USER
from grampus.databases.credentials import Credentials
from grampus.databases.model import FlavourName
from grampus.databases.users.decide_users import render_either_password

_ADMIN = f"'{ADMIN_USER}'@'localhost'"
# These accounts are no transactions of the instance: a recovery to a point in time would else
# bring back passwords that are on file nowhere.
_UNLOGGED = "SET SESSION sql_log_bin = 0;\n"


def render_rotate_sql(flavour: FlavourName, following: Credentials, current: Credentials) -> str:
    """SQL after which the owner and the administrator take their next and current passwords.

    MySQL's statement changes both or neither; MariaDB changes the administrator last, so whether
    its next password works says whether all is done.
    """
    owner, admin = following.password, following.admin_password
    if flavour == "mysql":
        return (
            f"{_UNLOGGED}ALTER USER {_owner(current)} IDENTIFIED BY '{owner.get_secret_value()}' "
            f"RETAIN CURRENT PASSWORD, {_ADMIN} IDENTIFIED BY '{admin.get_secret_value()}' "
            "RETAIN CURRENT PASSWORD;\n"
        )
    owners = render_either_password(owner.get_secret_value(), current.password.get_secret_value())
    admins = render_either_password(
        admin.get_secret_value(), current.admin_password.get_secret_value()
    )
    return f"{_UNLOGGED}ALTER USER {_owner(current)} {owners};\nALTER USER {_ADMIN} {admins};\n"


def render_discard_sql(flavour: FlavourName, current: Credentials, *, of_owner: bool) -> str:
    """SQL after which the administrator, and the owner if asked, take their current password alone.

    It may be repeated.
    """
    if flavour == "mysql":
        owner = f"{_owner(current)} DISCARD OLD PASSWORD, " if of_owner else ""
        return f"{_UNLOGGED}ALTER USER {owner}{_ADMIN} DISCARD OLD PASSWORD;\n"
    password, admin = current.password, current.admin_password
    owner = (
        f"ALTER USER {_owner(current)} IDENTIFIED BY '{password.get_secret_value()}';\n"
        if of_owner
        else ""
    )
    admins = f"ALTER USER {_ADMIN} IDENTIFIED BY '{admin.get_secret_value()}';\n"
    return f"{_UNLOGGED}{owner}{admins}"


def _owner(credentials: Credentials) -> str:
    return f"'{credentials.user}'@'%'"
