"""Labels and a new name for a database, as steps."""

from __future__ import annotations

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.databases.database_work import IMAGE_PREFIX, DatabaseWork
from grampus.databases.kinds import DatabaseOperation
from grampus.databases.layout import database_directory
from grampus.databases.lifecycle import bring_up, bring_up_steps
from grampus.databases.model import DatabaseSpec
from grampus.databases.records import render_labels
from grampus.databases.step_ports import StepPorts
from grampus.databases.users.user_files import UserFiles
from grampus.state.operations import Step


class RenameOrder(Model):
    """A new name, as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec  # as it is
    new_name: str
    restarts: bool  # it shall run, so it is stopped before and started after


def _label_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    labels = render_labels(spec.labels) or "none"
    return [
        Step(
            "record",
            f"Record the labels of {spec.name}: {labels}",
            lambda: ports.records.change(spec.name, spec=spec),
        ),
        Step(
            "metadata",
            "Record them in the metadata of the image",
            DatabaseWork(ports, spec).write_facts,
        ),
    ]


def _rename_steps(ports: StepPorts, order: RenameOrder) -> list[Step]:
    """The name is a part of the image's, the daemon's and the directory's: all are moved.

    Address, users and passwords stay as they are, so that clients come back by themselves.
    """
    spec, name, new_name = order.spec, order.spec.name, order.new_name
    new = spec.model_copy(update={"name": new_name})
    work = DatabaseWork(ports, spec)

    def move_volume(former: DatabaseSpec, to: str) -> None:
        if DatabaseWork(ports, former).has_own_volume():  # else it was moved before
            ports.volumes.trash.ensure_renamed(former.name, to, f"{IMAGE_PREFIX}{to}")

    def move_volume_back() -> None:
        move_volume(new, name)
        work.write_facts()  # the record is back by now

    def move_files(former: str, to: str) -> None:
        host = work.host()
        source, target = (database_directory(host.data_dir, of) for of in (former, to))
        if host.read_file(source / "my.cnf") is not None:
            host.run(["mv", "-T", str(source), str(target)])

    def move_secrets(former: str, to: DatabaseSpec) -> None:
        ports.credentials.ensure_moved(former, to.name)
        UserFiles(ports.credentials, to.name).write_all(to)

    stop = Step("server", "Stop the server", work.stop_server, lambda: bring_up(ports, spec))
    steps = [
        Step("scratch", "Remove its scratch instance, if any", work.remove_scratch),
        Step("detach", "Detach the volume", work.detach_own),
        Step(
            "volume",
            f"Name the image {IMAGE_PREFIX}{new_name}, with a new key",
            lambda: move_volume(spec, new_name),
            move_volume_back,
        ),
        Step(
            "files",
            f"Move its files on {spec.host}",
            lambda: move_files(name, new_name),
            lambda: move_files(new_name, name),
        ),
        Step(
            "secrets",
            "Move its passwords to the new name",
            lambda: move_secrets(name, new),
            lambda: move_secrets(new_name, spec),
        ),
        Step(
            "record",
            f"Record {name} as {new_name}",
            lambda: ports.records.rename(name, new),
            lambda: ports.records.rename(new_name, spec),
        ),
        Step(
            "metadata",
            "Record it in the metadata of the image",
            DatabaseWork(ports, new).write_facts,
        ),
    ]
    return [stop, *steps, *bring_up_steps(ports, new)] if order.restarts else steps


LABEL = DatabaseOperation(
    kind="db.label",
    what="change of the labels of the database",
    document=DatabaseSpec,
    build=_label_steps,
    subject=lambda spec: spec.name,
    when_cut_off="finish",
)
RENAME = DatabaseOperation(
    kind="db.rename",
    what="renaming of the database",
    document=RenameOrder,
    build=_rename_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="finish-or-undo",
    address=lambda order: order.spec.held_address,
    takes=lambda order: order.new_name,
    takes_volume=True,
    opens_volume=True,
)
