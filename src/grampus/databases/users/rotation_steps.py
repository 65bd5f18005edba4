"""New passwords for the accounts that Grampus works with, as steps.

At every moment the passwords on file let in: new ones are kept before the server is told of
them, both work until the files are written, and only then the former ones end.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.credentials import Credentials
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.answering import ensure_answering
from grampus.databases.users.decide_rotation import (
    ADMIN_HOSTS_SQL,
    parse_admin_hosts,
    render_discard_sql,
    render_rotate_sql,
)
from grampus.databases.users.secret_statements import AccessDeniedError, secret_statements
from grampus.state.operations import Step


class RotateOrder(Model):
    """A rotation, as its steps need it. It holds no password: the state is no secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    database: str
    keeps_former: bool = False  # the owner's former password works until it is discarded
    rotates_key: bool = False  # the volume's driver gets a new key for the cluster too


class _RotationWork:
    """What the steps of one rotation do; every method is idempotent."""

    def __init__(self, ports: StepPorts, order: RotateOrder) -> None:
        self._ports = ports
        self._order = order

    def tell_server(self) -> None:
        """Every account takes its next password as well as the one it has."""
        name, spec = self._order.database, self._answering()
        following = self._ports.credentials.find_next(name)
        if following is None or self._is_known(spec, following):
            return
        current = self._ports.credentials.load(name)
        statements = secret_statements(self._ports, spec)
        hosts = parse_admin_hosts(statements.run(ADMIN_HOSTS_SQL))
        statements.run(render_rotate_sql(spec.flavour, following, current, hosts))

    def write_files(self) -> None:
        DatabaseWork(self._ports, self._answering()).files()

    def discard(self, *, of_owner: bool) -> None:
        spec = self._answering()
        current = self._ports.credentials.load(self._order.database)
        sql = render_discard_sql(spec.flavour, current, of_owner=of_owner)
        secret_statements(self._ports, spec).run(sql)

    def remove_scratch(self) -> None:
        DatabaseWork(self._ports, self._spec()).remove_scratch()

    def _is_known(self, spec: DatabaseSpec, following: Credentials) -> bool:
        """Whether the server was told before: the administrator is the last to be changed."""
        try:
            secret_statements(self._ports, spec, following.admin_password).run("DO 0;")
        except AccessDeniedError:
            return False
        return True

    def _answering(self) -> DatabaseSpec:
        spec = self._spec()
        ensure_answering(self._ports, spec)
        return spec

    def _spec(self) -> DatabaseSpec:
        return self._ports.records.get(self._order.database).spec


def _rotate_steps(ports: StepPorts, order: RotateOrder) -> list[Step]:
    work, name = _RotationWork(ports, order), order.database
    last = (
        "Reject the former password of the administrator; the owner's still works"
        if order.keeps_former
        else "Reject all former passwords"
    )
    key = Step(
        "key",
        "Create a new cephx key for the volume, with a pause of about a second",
        lambda: ports.volumes.key_rotation.rotate(name),
    )
    return [
        # Its accounts have the passwords of the time when it was made.
        Step("scratch", "Remove its scratch instance, if any", work.remove_scratch),
        Step(
            "password",
            "Create new passwords",
            lambda: discard(ports.credentials.ensure_next(name)),
        ),
        Step("accounts", "Set them in the server; the former ones still work", work.tell_server),
        Step(
            "secrets",
            "Store them instead of the former ones",
            lambda: ports.credentials.settle_next(name),
        ),
        Step("files", "Write option files", work.write_files),
        Step("discard", last, lambda: work.discard(of_owner=not order.keeps_former)),
        *([key] if order.rotates_key else []),
    ]


def _discard_steps(ports: StepPorts, order: RotateOrder) -> list[Step]:
    work = _RotationWork(ports, order)
    title = "Reject the former password of the owner"
    return [Step("discard", title, lambda: work.discard(of_owner=True))]


ROTATE = DatabaseOperation(
    kind="db.rotate",
    what="rotation of the passwords of the database",
    document=RotateOrder,
    build=_rotate_steps,
    subject=lambda order: order.database,
    when_cut_off="finish",
    goes_with_database=True,
)
DISCARD = replace(
    ROTATE,
    kind="db.rotate-discard",
    what="discarding of the former password of the database",
    build=_discard_steps,
)
