"""What a role may be given, as it is written on the command line and as SQL. All pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pydantic import ConfigDict

from grampus.core.errors import NotFoundError, RefusedError, UsageError, suggest
from grampus.core.models import Model
from grampus.databases.model import FlavourName

_MAX_LENGTH = 64  # of the name of a schema or table, in both servers
# What both servers know, in the order in which they show it (`SHOW GRANTS`): on a table, inside a
# schema, and on all of the server.
_ON_TABLE = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "REFERENCES", "INDEX", "ALTER"),
    *("CREATE VIEW", "SHOW VIEW", "TRIGGER"),
)
_ON_SERVER = (
    *("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "RELOAD", "PROCESS", "REFERENCES"),
    *("INDEX", "ALTER", "SHOW DATABASES", "CREATE TEMPORARY TABLES", "LOCK TABLES", "EXECUTE"),
    *("REPLICATION SLAVE", "REPLICATION CLIENT", "CREATE VIEW", "SHOW VIEW", "CREATE ROUTINE"),
    *("ALTER ROUTINE", "EVENT", "TRIGGER"),
    *("FLUSH_OPTIMIZER_COSTS", "FLUSH_STATUS", "FLUSH_TABLES", "FLUSH_USER_RESOURCES"),
    *("SHOW_ROUTINE", "XA_RECOVER_ADMIN"),
)
# Parts of what RELOAD, or a right on the schema `mysql`, allows; MariaDB has none of them.
_ONLY_IN_MYSQL = frozenset(
    {
        *("FLUSH_OPTIMIZER_COSTS", "FLUSH_STATUS", "FLUSH_TABLES", "FLUSH_USER_RESOURCES"),
        *("SHOW_ROUTINE", "XA_RECOVER_ADMIN"),
    }
)
_ONLY_ON_SERVER = _ONLY_IN_MYSQL | {
    *("PROCESS", "RELOAD", "SHOW DATABASES", "REPLICATION CLIENT", "REPLICATION SLAVE"),
}
_IN_SCHEMA = tuple(each for each in _ON_SERVER if each not in _ONLY_ON_SERVER)
# What configures a server, reaches its host or makes accounts: who has one of them can have all.
# All that SECURITY.md says the owner does not have is in it, and what makes accounts.
_REFUSED = frozenset(
    {
        *("SUPER", "FILE", "SHUTDOWN", "CREATE TABLESPACE", "CREATE USER", "CREATE ROLE"),
        *("DROP ROLE", "GRANT OPTION", "PROXY", "SYSTEM_USER", "ROLE_ADMIN", "SET USER"),
        *("SET_ANY_DEFINER", "ALLOW_NONEXISTENT_DEFINER", "SENSITIVE_VARIABLES_OBSERVER"),
        *("SYSTEM_VARIABLES_ADMIN", "PERSIST_RO_VARIABLES_ADMIN", "SESSION_VARIABLES_ADMIN"),
        *("ENCRYPTION_KEY_ADMIN", "INNODB_REDO_LOG_ENABLE", "INNODB_REDO_LOG_ARCHIVE"),
        *("BINLOG_ADMIN", "BINLOG ADMIN", "BINLOG REPLAY", "BINLOG_ENCRYPTION_ADMIN"),
        *("REPLICATION_APPLIER", "REPLICATION_SLAVE_ADMIN", "REPLICATION SLAVE ADMIN"),
        *("REPLICATION MASTER ADMIN", "GROUP_REPLICATION_ADMIN", "GROUP_REPLICATION_STREAM"),
        *("FEDERATED ADMIN", "CLONE_ADMIN", "BACKUP_ADMIN", "READ_ONLY ADMIN"),
        *("CONNECTION_ADMIN", "CONNECTION ADMIN", "SERVICE_CONNECTION_ADMIN"),
        *("RESOURCE_GROUP_ADMIN", "AUDIT_ADMIN", "AUDIT_ABORT_EXEMPT", "FIREWALL_EXEMPT"),
        *("TABLE_ENCRYPTION_ADMIN", "TELEMETRY_LOG_ADMIN", "AUTHENTICATION_POLICY_ADMIN"),
        *("PASSWORDLESS_USER_ADMIN", "APPLICATION_PASSWORD_ADMIN"),
    }
)
_READ = ("SELECT", "SHOW VIEW")
_WRITE = (
    *_READ,
    *("INSERT", "UPDATE", "DELETE", "EXECUTE", "CREATE TEMPORARY TABLES", "LOCK TABLES"),
)
# Words for several privileges; each stands for those of them that there are on what it is put.
_WORDS = {"READ": _READ, "WRITE": _WRITE, "ALL": _IN_SCHEMA, "ALL PRIVILEGES": _IN_SCHEMA}
# Who writes to `mysql` can give itself any right, and who reads it sees the passwords' hashes;
# `information_schema` shows to everybody what they may see.
_CLOSED = frozenset({"mysql", "information_schema"})
# Of the server's own, and of these there is nothing to write.
_READABLE = {
    "performance_schema": ("SELECT",),
    "sys": ("SELECT", "SHOW VIEW", "EXECUTE"),
}

_NAME = r"`(?:[^`]|``)+`|[^.`*\s'\"]+"
_WRITTEN = re.compile(r"\s*(?P<what>.+?)\s+ON\s+(?P<where>\S.*?)\s*", re.IGNORECASE | re.DOTALL)
_WHERE = re.compile(rf"(?P<all>\*\.\*)|(?P<schema>{_NAME})(?:\.(?:\*|(?P<table>{_NAME})))?")
# A line of `SHOW GRANTS`.
_OPTION = " WITH GRANT OPTION"
_GIVEN = re.compile(r"GRANT (?P<what>.+?) ON (?P<where>.+) TO (?P<role>.+)")
_EXAMPLE = "Write the grant as 'read ON sales' or 'SELECT, INSERT ON sales.orders'."


class RoleGrant(Model):
    """Privileges on one thing. Names are as the server has them: they are quoted in SQL."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    privileges: tuple[str, ...]
    in_schema: str | None = None  # None: on all of the server
    table: str | None = None  # None: on all of the schema

    @property
    def where(self) -> str:
        """On what, such as `sales.*`, for people."""
        return "*.*" if self.in_schema is None else f"{self.in_schema}.{self.table or '*'}"

    @property
    def shown(self) -> str:
        """All of it, such as `SELECT, SHOW VIEW ON sales.*`, for people."""
        return f"{', '.join(self.privileges)} ON {self.where}"


def parse_grant(text: str) -> RoleGrant:
    """What `text` gives, such as `SELECT, INSERT ON sales.*` or `read ON sales`.

    Raises UsageError for what cannot be read, with code `unknown-privilege` or `wrong-level`;
    RefusedError with code `too-much` or `system-schema`.
    """
    written = _WRITTEN.fullmatch(text)
    where = _WHERE.fullmatch(written["where"]) if written else None
    if written is None or where is None or not text.isprintable():
        raise UsageError(f"{text!r} is not of the form 'PRIVILEGES ON WHAT'.", _EXAMPLE)
    schema, table = _unquote(where["schema"]), _unquote(where["table"])
    level = _allowed(schema, table)
    chosen: set[str] = set()
    for word in written["what"].split(","):
        privilege = " ".join(word.upper().split())
        if privilege in _WORDS:
            chosen |= set(_WORDS[privilege]) & set(level)
        else:
            chosen.add(privilege)
            _require_privilege(privilege, level, text=text, schema=schema)
    if not chosen:
        raise UsageError(
            f"{text!r} has no privilege that applies there.", _EXAMPLE, code="wrong-level"
        )
    return RoleGrant(
        privileges=_ordered(chosen),
        in_schema=schema,
        table=table,
    )


def parse_given(flavour: FlavourName, lines: Iterable[str], *, role: str) -> list[RoleGrant]:
    """What a role has, from the lines of `SHOW GRANTS`; the reverse of `render_grants`.

    Raises RefusedError with code `given-in-sql` for what no RoleGrant can say, such as columns,
    routines, roles of the role, and rights to give away.
    """
    given: list[RoleGrant] = []
    for line in lines:
        if line.startswith("GRANT USAGE ON *.* TO ") and not line.endswith(_OPTION):
            continue
        if re.fullmatch(r"REVOKE [A-Z ,]+ ON `?mysql`?\.\* FROM .+", line):
            continue  # what `render_grants` keeps out
        grant = _parse_given(flavour, line)
        if grant is None:
            raise RefusedError(
                f"The role '{role}' has a grant from SQL that `--grant` cannot express: "
                f"{line:.120}.",
                "Revoke that grant in SQL first (`grampus db connect NAME`), or change the "
                "role in SQL.",
                code="given-in-sql",
            )
        given.append(grant)
    return merge_grants(given)


def merge_grants(grants: Iterable[RoleGrant]) -> list[RoleGrant]:
    """The same privileges, with one grant for each thing."""
    chosen: dict[tuple[str | None, str | None], set[str]] = {}
    for grant in grants:
        chosen.setdefault((grant.in_schema, grant.table), set()).update(grant.privileges)
    return [
        RoleGrant(privileges=_ordered(privileges), in_schema=schema, table=table)
        for (schema, table), privileges in chosen.items()
    ]


def decide_missing(wanted: Iterable[RoleGrant], given: Iterable[RoleGrant]) -> list[RoleGrant]:
    """What of `wanted` is not in `given`."""
    had = {(one.in_schema, one.table): set(one.privileges) for one in merge_grants(given)}
    missing = []
    for one in merge_grants(wanted):
        left = set(one.privileges) - had.get((one.in_schema, one.table), set())
        if left:
            missing.append(one.model_copy(update={"privileges": _ordered(left)}))
    return missing


def require_closed(flavour: FlavourName, added: Iterable[RoleGrant]) -> None:
    """Raise RefusedError when users of a role would get into the schema `mysql` for a moment.

    MySQL gives a privilege on all of the server first, and keeps it out of a schema after that.
    """
    if flavour != "mysql":
        return
    for grant in added:
        reaching = [each for each in grant.privileges if each in _IN_SCHEMA]
        if grant.in_schema is None and reaching:
            raise RefusedError(
                f"{', '.join(reaching)} ON *.* would apply to the schema mysql for a moment, "
                "for all users with the role.",
                "Create another role with these privileges (`grampus db role add NAME "
                "ROLE`), and grant that one.",
                code="not-closed",
            )


def require_owned(flavour: FlavourName, wanted: Iterable[RoleGrant]) -> None:
    """Refuse what the owner of a database has not either (the tables in SECURITY.md).

    Raises RefusedError with code `too-much`, UsageError with code `unknown-privilege`.
    """
    asked = {privilege for grant in wanted for privilege in grant.privileges}
    if flavour == "mysql" and "RELOAD" in asked:
        raise RefusedError(
            "RELOAD would let a client reset the binary logs, which the archive and replicas need.",
            "Use FLUSH_TABLES, FLUSH_STATUS, FLUSH_USER_RESOURCES or FLUSH_OPTIMIZER_COSTS "
            "instead: `grampus db role add NAME ROLE --grant 'FLUSH_TABLES ON *.*'`.",
            code="too-much",
        )
    lacking = [each for each in _ordered(asked) if each in _ONLY_IN_MYSQL]
    if flavour == "mariadb" and lacking:
        raise UsageError(
            f"MariaDB has no privilege named {lacking[0]!r}.",
            "Remove it. In MariaDB, RELOAD allows FLUSH.",
            code="unknown-privilege",
        )


def require_there(
    grants: Iterable[RoleGrant], schemas: Sequence[str], tables: Sequence[tuple[str, str]]
) -> None:
    """Raise NotFoundError when a grant names a schema or table that the server has not.

    The servers take privileges on a schema that is not there: a slip would go unnoticed.
    """
    for grant in grants:
        if grant.in_schema is None:
            continue
        if grant.in_schema not in schemas:
            raise _missing("schema", grant.in_schema, schemas)
        if grant.table is not None and (grant.in_schema, grant.table) not in tables:
            there = [name for schema, name in tables if schema == grant.in_schema]
            raise _missing(f"table in {grant.in_schema}", grant.table, there)


def render_names_sql(grants: Iterable[RoleGrant]) -> str:
    """SQL whose answer `parse_names` reads: the schemas, and the tables of those that have some.

    No name of a grant is in it. Names are hexadecimal: they may hold a tab or a line end.
    """
    asked = ["SELECT HEX(schema_name) FROM information_schema.schemata;\n"]
    if any(grant.table is not None for grant in grants):
        asked.append("SELECT HEX(table_schema), HEX(table_name) FROM information_schema.tables;\n")
    return "".join(asked)


def parse_names(
    rows: Iterable[tuple[str, ...]],
) -> tuple[list[str], list[tuple[str, str]]]:
    """The schemas, and the tables with theirs, in what `render_names_sql` answered."""
    names = [tuple(bytes.fromhex(text).decode() for text in row) for row in rows]
    return [row[0] for row in names if len(row) == 1], [
        (row[0], row[1]) for row in names if len(row) == 2
    ]


def render_grants(flavour: FlavourName, role: str, grants: Iterable[RoleGrant]) -> list[str]:
    """Statements that give a role, which is quoted, its privileges; they may be repeated."""
    statements = []
    for grant in grants:
        statements.append(
            f"GRANT {', '.join(grant.privileges)} ON {_target(flavour, grant)} TO {role}"
        )
        kept_out = [each for each in grant.privileges if each in _IN_SCHEMA]
        if flavour == "mysql" and grant.in_schema is None and kept_out:
            # Partial revokes, as for every other role and user of Grampus.
            statements.append(f"REVOKE {', '.join(kept_out)} ON mysql.* FROM {role}")
    return statements


def render_revokes(flavour: FlavourName, role: str, grants: Iterable[RoleGrant]) -> list[str]:
    """Statements that take privileges from a role, which is quoted and has them."""
    return [
        f"REVOKE {', '.join(grant.privileges)} ON {_target(flavour, grant)} FROM {role}"
        for grant in grants
    ]


def quote(name: str) -> str:
    """A name in SQL, whatever it holds: what quotes it is doubled in every mode of a server."""
    return "`" + name.replace("`", "``") + "`"


def _ordered(privileges: Iterable[str]) -> tuple[str, ...]:
    chosen = set(privileges)
    return tuple(each for each in _ON_SERVER if each in chosen)


def _parse_given(flavour: FlavourName, line: str) -> RoleGrant | None:
    """A line of `SHOW GRANTS`; None: it says what no RoleGrant can."""
    given = _GIVEN.fullmatch(line)
    where = _WHERE.fullmatch(given["where"]) if given else None
    if given is None or where is None or line.endswith(_OPTION):
        return None
    schema, table = _unquote(where["schema"]), _unquote(where["table"])
    if flavour == "mariadb" and schema is not None and table is None:
        # The client shows a backslash as two. One that is missing makes a pattern of a name.
        if re.search(r"(?<!\\)[_%]", schema):
            return None
        schema = re.sub(r"\\+([_%])", r"\1", schema)
    if any("\\" in name for name in (schema, table) if name is not None):
        return None
    level = _ON_SERVER if schema is None else _IN_SCHEMA if table is None else _ON_TABLE
    privileges = {each.strip() for each in given["what"].split(",")}
    if privileges == {"ALL PRIVILEGES"} and flavour == "mysql" and schema is not None:
        privileges = set(level)
    if not privileges <= set(level):
        return None
    return RoleGrant(privileges=_ordered(privileges), in_schema=schema, table=table)


def _target(flavour: FlavourName, grant: RoleGrant) -> str:
    if grant.in_schema is None:
        return "*.*"
    if grant.table is not None:
        return f"{quote(grant.in_schema)}.{quote(grant.table)}"
    schema = grant.in_schema
    if flavour == "mariadb":
        # A schema is a pattern there. Not in MySQL, whose `partial_revokes` is on: it takes the
        # name as it is, with every backslash.
        schema = re.sub(r"([\\_%])", r"\\\1", schema)
    return f"{quote(schema)}.*"


def _allowed(schema: str | None, table: str | None) -> tuple[str, ...]:
    if schema is None:
        return _ON_SERVER
    if schema.lower() in _CLOSED:
        raise RefusedError(
            f"The schema {schema} belongs to the server, and no role can access it.",
            "Remove it. The role 'admin' has the owner's privileges.",
            code="system-schema",
        )
    level = _IN_SCHEMA if table is None else _ON_TABLE
    readable = _READABLE.get(schema.lower())
    return level if readable is None else tuple(each for each in readable if each in level)


def _require_privilege(
    privilege: str, level: Sequence[str], *, text: str, schema: str | None
) -> None:
    if privilege in level:
        return
    if privilege in _REFUSED:
        raise RefusedError(
            f"{privilege} would let a client change its privileges or the server itself.",
            "Remove it. The role 'admin' has the owner's privileges.",
            code="too-much",
        )
    if privilege not in _ON_SERVER:
        raise UsageError(
            f"The privilege {privilege!r} does not exist.",
            suggest(privilege, [*_ON_SERVER, *_WORDS], _EXAMPLE),
            code="unknown-privilege",
        )
    if schema is not None and schema.lower() in _READABLE:
        raise RefusedError(
            f"The schema {schema} belongs to the server, and is read-only.",
            f"Grant only {', '.join(level)} on it.",
            code="system-schema",
        )
    raise UsageError(
        f"{privilege} cannot be granted on {text!r}.",
        "Such privileges apply to the whole server or to a whole schema: write `ON *.*` or "
        "`ON SCHEMA.*`, or remove them.",
        code="wrong-level",
    )


def _unquote(name: str | None) -> str | None:
    if name is None:
        return None
    bare = name[1:-1].replace("``", "`") if name.startswith("`") else name
    if len(bare) > _MAX_LENGTH:
        raise UsageError(
            f"{bare!r} is too long for a schema or table name.",
            f"Names have at most {_MAX_LENGTH} characters.",
            code="invalid-name",
        )
    return bare


def _missing(what: str, name: str, known: Iterable[str]) -> NotFoundError:
    return NotFoundError(
        f"The server has no {what} named '{name}'.",
        suggest(name, known, "Create it first, then grant privileges on it."),
    )
