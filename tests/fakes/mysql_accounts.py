"""What a server knows of its accounts: the statements that it was given, carried out in order."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

_CLAUSE = re.compile(
    r"'(?P<user>[^']+)'@'(?P<host>[^']+)' "
    r"(?:IDENTIFIED BY '(?P<password>[^']*)'(?P<retains> RETAIN CURRENT PASSWORD)?"
    r"|IDENTIFIED VIA mysql_native_password USING PASSWORD\('(?P<either>[^']*)'\) "
    r"OR mysql_native_password USING PASSWORD\('(?P<other>[^']*)'\)"
    r"|(?P<discards>DISCARD OLD PASSWORD))"
)
# The administrator's second account, for the port: it has the password of the first.
_AT_PORT = "127.0.0.1"
_ROLE = re.compile(r"DEFAULT ROLE '(?P<role>[^']+)'")
_DROPPED = re.compile(r"'(?P<user>[^']+)'@'(?!127)")


@dataclass
class FakeAccount:
    host: str
    password: str
    former: str | None = None
    role: str = ""

    def takes(self, password: str) -> bool:
        return password in (self.password, self.former)


@functools.lru_cache(maxsize=256)  # the same statements are asked about again and again
def accounts_of(statements: str) -> Mapping[str, FakeAccount]:
    """The accounts by name, after all statements, one a line."""
    accounts: dict[str, FakeAccount] = {}
    for statement in statements.splitlines():
        if statement.startswith("DROP USER"):
            for match in _DROPPED.finditer(statement):
                accounts.pop(match["user"], None)
        if not statement.startswith(("CREATE USER", "ALTER USER")):
            continue
        for match in _CLAUSE.finditer(statement):
            user, known = match["user"], accounts.get(match["user"])
            if match["host"] == _AT_PORT:
                continue
            if statement.startswith("CREATE USER"):
                if known is None:
                    role = _ROLE.search(statement)
                    accounts[user] = FakeAccount(
                        match["host"], match["password"], role=role["role"] if role else ""
                    )
            elif known is None:
                continue  # root, which no statement made
            elif match["discards"]:
                known.former = None
            elif match["either"]:
                known.password, known.former = match["either"], match["other"]
            else:
                known.former = known.password if match["retains"] else None
                known.password = match["password"]
    return accounts


def are_up_to_date(statements: str) -> bool:
    """Whether accounts are those of this release: the routine that says so is there."""
    changes = [line for line in statements.splitlines() if "PROCEDURE" in line]
    made = [line for line in changes if "mysql.grampus_kill_checked" in line.partition("(")[0]]
    return bool(made) and made[-1].startswith("CREATE") and "version 2" in made[-1]


def answer(statements: str, accounts: Mapping[str, FakeAccount]) -> str:
    """What the client prints for the questions among the statements."""
    if statements.startswith("SELECT Host FROM mysql.user"):
        return "localhost\n127.0.0.1\n"
    if statements.startswith("SELECT User, Host FROM mysql.user"):
        return "".join(
            f"{user}\t{each.host}\n" for user, each in accounts.items() if each.host == "%"
        )
    if "FROM mysql.user u" not in statements or "SELECT 'role', " in statements:
        return ""
    return "".join(
        f"{user}\t{account.host}\tN\tANY\t{account.role}\t2026-11-22 00:57:47\t"
        f"{'Y' if account.former else 'N'}\n"
        for user, account in sorted(accounts.items())
        if "." not in user and user != "root"
    )
