"""Changes of a database's users, as lists of steps.

Each password is on file before the server is told of it, so that work which was cut off can be
gone on with.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.answering import ensure_answering
from grampus.databases.users.decide_users import (
    describe_role,
    render_add_sql,
    render_discard_sql,
    render_drop_sql,
    render_kill_sql,
    render_password_sql,
    render_sessions_sql,
)
from grampus.databases.users.secret_statements import SecretStatements, secret_statements
from grampus.databases.users.user_files import UserFiles
from grampus.operations.operation_type import WhenCutOff
from grampus.state.operations import Step


class UserOrder(Model):
    """A change of one user, as its steps need it. It holds no password: the state is no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    user: str
    role: str | None = None  # of a new one, as `db role list` shows it
    keeps_former: bool = False  # the former password works beside the new one


class _UserWork:
    """What the steps of a change of a user do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: UserOrder) -> None:
        self._ports = ports
        self._order = order
        self._files = UserFiles(ports.credentials, order.database)

    def make_password(self) -> None:
        self._files.ensure_next(self._order.user)

    def add(self, role: str) -> None:
        spec, user = self._spec(), self._order.user
        password = (self._files.find(user) or self._files.ensure_next(user)).get_secret_value()
        self._statements(spec).run(render_add_sql(spec.flavour, user, role, password))

    def change_password(self) -> None:
        spec, user = self._spec(), self._order.user
        # On file it is still the former one: this has not come to its end before.
        former = self._files.find(user)
        sql = render_password_sql(
            spec.flavour,
            user,
            self._files.ensure_next(user).get_secret_value(),
            keeps_former=self._order.keeps_former,
            former=former.get_secret_value() if former else None,
        )
        self._statements(spec).run(sql)

    def discard_former(self) -> None:
        spec, user = self._spec(), self._order.user
        password = self._files.find(user)
        known = password.get_secret_value() if password else None
        self._statements(spec).run(render_discard_sql(spec.flavour, user, known))

    def write_file(self) -> None:
        self._files.settle_next(self._spec(), self._order.user)

    def remove(self) -> None:
        """Nobody can log in as the user any more, then its sessions end."""
        statements = self._statements(self._spec())
        statements.run(render_drop_sql(self._order.user))
        sessions = [row[0] for row in statements.run(render_sessions_sql(self._order.user))]
        if sessions:
            statements.run(render_kill_sql(sessions))

    def forget(self) -> None:
        self._files.ensure_absent(self._order.user)

    def _spec(self) -> DatabaseSpec:
        return self._ports.records.get(self._order.database).spec

    def _statements(self, spec: DatabaseSpec) -> SecretStatements:
        ensure_answering(self._ports, spec)
        return secret_statements(self._ports, spec)


def _add_steps(ports: StepPorts, order: UserOrder) -> list[Step]:
    work, role, user = _UserWork(ports, order), order.role or "read", order.user
    return [
        Step("password", f"Create a password for {user}", work.make_password, work.forget),
        Step(
            "account",
            f"Create the user {user}, which {describe_role(role)}",
            lambda: work.add(role),
            work.remove,
        ),
        Step("file", "Write its option file", work.write_file),
    ]


def _remove_steps(ports: StepPorts, order: UserOrder) -> list[Step]:
    work = _UserWork(ports, order)
    return [
        Step("account", f"Remove the user {order.user} and end its sessions", work.remove),
        Step("file", "Delete its password", work.forget),
    ]


def _password_steps(ports: StepPorts, order: UserOrder) -> list[Step]:
    work, user = _UserWork(ports, order), order.user
    kept = "; the former one still works" if order.keeps_former else ""
    return [
        Step("password", f"Create a new password for {user}", work.make_password),
        Step("account", f"Set it in the server{kept}", work.change_password),
        Step("file", "Write its option file", work.write_file),
    ]


def _discard_steps(ports: StepPorts, order: UserOrder) -> list[Step]:
    work = _UserWork(ports, order)
    title = f"Reject the former password of {order.user}"
    return [Step("account", title, work.discard_former)]


def _type(
    kind: str,
    what: str,
    build: Callable[[StepPorts, UserOrder], list[Step]],
    when_cut_off: WhenCutOff = "finish",
) -> DatabaseOperation[UserOrder]:
    return DatabaseOperation(
        kind=kind,
        what=f"{what} of the database",
        document=UserOrder,
        build=build,
        subject=lambda order: order.database,
        when_cut_off=when_cut_off,
        goes_with_database=True,
    )


ADD_USER = _type("db.user-add", "creation of a user", _add_steps, "undo")
REMOVE_USER = _type("db.user-remove", "removal of a user", _remove_steps)
CHANGE_PASSWORD = _type("db.user-passwd", "change of the password of a user", _password_steps)
DISCARD_PASSWORD = _type(
    "db.user-discard", "discarding of the former password of a user", _discard_steps
)
