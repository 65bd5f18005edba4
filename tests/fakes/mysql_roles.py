"""What a server knows of roles: the statements that it was given, carried out in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from grampus.databases.users.decide_role_grants import parse_grant
from tests.fakes.mysql_accounts import accounts_of

Account = tuple[str, str]  # name and host; MariaDB's roles have the host ''
# What every server of the tests holds.
TABLES = [("shop", "orders"), ("shop", "lines"), ("my_shop", "t")]

_QUOTED = r"(?:`(?:[^`]|``)*`|'[^']*')"
_ACCOUNT = rf"{_QUOTED}(?:@{_QUOTED})?"
_ROLE_TO_USER = re.compile(rf"(GRANT|REVOKE) ({_ACCOUNT}) (?:TO|FROM) ({_ACCOUNT})")
_PRIVILEGES = re.compile(
    rf"(?:GRANT|REVOKE) [A-Z ,]+ ON .+? (?:TO|FROM) ({_ACCOUNT})(?: WITH GRANT OPTION)?"
)
_PLAIN = re.compile(r"GRANT (?P<what>[A-Z ,]+?)(?P<rest> ON .+ TO \S+)")
_ORDER = parse_grant("all ON *.*").privileges
_LOGIN = re.compile(rf"SET DEFAULT ROLE (NONE|{_ACCOUNT}(?:, {_ACCOUNT})*) (?:TO|FOR) ({_ACCOUNT})")
_CREATE_USER = re.compile(rf"CREATE USER IF NOT EXISTS ({_ACCOUNT}) .*?DEFAULT ROLE ({_ACCOUNT})")


@dataclass
class FakeRoles:
    """The roles of one server. `apply` answers as a server does that refuses a statement."""

    granted: dict[Account, list[str]] = field(default_factory=dict)  # statements, by role
    held: set[tuple[Account, Account]] = field(default_factory=set)  # role and user
    at_login: dict[Account, list[Account]] = field(default_factory=dict)  # by user

    def apply(self, statement: str, users: set[str]) -> str:
        """The error that it ends with; empty: it is carried out."""
        if statement.startswith("CREATE ROLE"):
            self.granted.setdefault(_only(statement), [])
        elif statement.startswith("DROP ROLE"):
            role = _only(statement)
            self.granted.pop(role, None)
            self.held = {edge for edge in self.held if edge[0] != role}
        elif statement.startswith("DROP USER"):
            for user in _accounts(statement):
                self.held = {edge for edge in self.held if edge[1] != user}
                self.at_login.pop(user, None)
        elif match := _CREATE_USER.match(statement):
            user, role = _only(match[1]), _only(match[2])
            self.held.add((role, user))
            self.at_login.setdefault(user, [role])
        elif match := _ROLE_TO_USER.fullmatch(statement):
            return self._hand(match[1], _only(match[2]), _only(match[3]), users)
        elif match := _LOGIN.fullmatch(statement):
            user, roles = _only(match[2]), list(_accounts(match[1]))
            if any((role, user) not in self.held for role in roles):
                return "ERROR 3530 (HY000): the role is not granted"
            self.at_login[user] = roles
        elif (match := _PRIVILEGES.fullmatch(statement)) and _only(match[1]) in self.granted:
            kept = self.granted[_only(match[1])]
            if statement.startswith("REVOKE") and " ON mysql.* " not in statement:
                return _revoke(kept, statement)
            _give(kept, statement)
        return ""

    def _hand(self, verb: str, role: Account, user: Account, users: set[str]) -> str:
        if role not in self.granted or user[0] not in users:
            return "ERROR 3523 (HY000): Unknown authorization ID"
        if verb == "GRANT":
            self.held.add((role, user))
        elif (role, user) not in self.held:
            return "ERROR 3619 (HY000): the role is not granted"
        else:
            self.held.remove((role, user))
            left = [each for each in self.at_login.get(user, []) if each != role]
            self.at_login[user] = left
        return ""

    def shown(self) -> list[str]:
        """All that there is, for comparing; Grampus's own roles stay once they are made."""
        found = [
            f"{role}: {statements}"
            for role, statements in self.granted.items()
            if not role[0].startswith("grampus.role.")
        ]
        found += [
            f"{user} has {role}{' at login' if role in self.at_login.get(user, []) else ''}"
            for role, user in self.held
        ]
        return sorted(found)


def _give(kept: list[str], statement: str) -> None:
    """As a server keeps it: one line for each thing, in an order of its own."""
    match = _PLAIN.fullmatch(statement)
    for number, line in enumerate(kept) if match else ():
        known = _PLAIN.fullmatch(line)
        if match and known and match["rest"] == known["rest"]:
            both = {*known["what"].split(", "), *match["what"].split(", ")}
            kept[number] = f"GRANT {', '.join(sorted(both, key=_place))}{match['rest']}"
            return
    if statement not in kept:
        kept.append(statement)


def _place(privilege: str) -> int:
    return _ORDER.index(privilege) if privilege in _ORDER else len(_ORDER)


def _revoke(kept: list[str], statement: str) -> str:
    """Take privileges out of the grants on the same thing, as a server does."""
    what, _, where = statement.removeprefix("REVOKE ").rpartition(" FROM ")[0].partition(" ON ")
    left = set(what.split(", "))
    for line in list(kept):
        given, _, target = line.removeprefix("GRANT ").rpartition(" TO ")[0].partition(" ON ")
        if line.startswith("REVOKE") or target != where:
            continue
        stay = [each for each in given.split(", ") if each not in left]
        left -= set(given.split(", "))
        role = line.rpartition(" TO ")[2]
        changed = [f"GRANT {', '.join(stay)} ON {where} TO {role}"] if stay else []
        kept[kept.index(line) : kept.index(line) + 1] = changed
    return f"ERROR 1141 (42000): There is no such grant: {left}" if left else ""


def roles_of(statements: str) -> FakeRoles:
    """What is there after all statements, one a line, that a server carried out."""
    roles = FakeRoles()
    users: set[str] = set()
    for line in statements.splitlines():
        users |= accounts_of(line).keys()
        roles.apply(line.rstrip(";"), users)
    return roles


def refusal(content: str, statements: str) -> tuple[str, str]:
    """What is carried out of `statements` after `content`, and the error that it ends with."""
    roles, users = roles_of(content), set(accounts_of(content))
    done: list[str] = []
    for line in statements.splitlines():
        users |= accounts_of(line).keys()
        error = roles.apply(line.rstrip(";"), users)
        if error:
            return "\n".join(done), error
        done.append(line)
    return "\n".join(done), ""


def answer_on_roles(statements: str, roles: FakeRoles) -> str:
    """What the client prints for the questions about roles among the statements."""
    return "".join(_answers(statements, roles))


def _answers(statements: str, roles: FakeRoles) -> Iterator[str]:
    if "SELECT 'role', " in statements:
        for name, host in sorted(roles.granted):
            yield f"role\t{_hex(name)}\t{_hex(host)}\tY\n"
        for role, user in sorted(roles.held):
            active = "Y" if role in roles.at_login.get(user, []) else "N"
            hexed = "\t".join(_hex(part) for part in (*role, *user))
            yield f"held\t{hexed}\t{active}\n"
    for line in statements.splitlines():
        if line.startswith("SELECT 'rights of'"):
            yield f"rights of\t{line.rstrip(';').rpartition(', ')[2]}\n"
        elif line.startswith("SHOW GRANTS FOR "):
            role = _only(line)
            yield "GRANT USAGE ON *.* TO somebody\n"
            yield from (f"{statement}\n" for statement in roles.granted[role])
        elif "FROM information_schema.schemata" in line:
            yield from (f"{_hex(schema)}\n" for schema in sorted({s for s, _ in TABLES}))
        elif "FROM information_schema.tables" in line:
            yield from (f"{_hex(schema)}\t{_hex(table)}\n" for schema, table in TABLES)


def _accounts(text: str) -> Iterator[Account]:
    for match in re.finditer(rf"({_QUOTED})(?:@({_QUOTED}))?", text):
        yield _bare(match[1]), _bare(match[2] or "``")


def _only(text: str) -> Account:
    (account,) = _accounts(text)
    return account


def _bare(quoted: str) -> str:
    return quoted[1:-1].replace("``", "`")


def _hex(text: str) -> str:
    return text.encode().hex()
