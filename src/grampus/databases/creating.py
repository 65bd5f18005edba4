"""Creating a database: on a clone of a golden volume, or on an empty one; as lists of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, model_validator

from grampus.core.models import Model
from grampus.core.units import format_bytes
from grampus.databases.database_work import DatabaseWork, discard
from grampus.databases.kinds import DatabaseOperation, new_identity
from grampus.databases.model import DatabaseSpec
from grampus.databases.step_ports import StepPorts
from grampus.state.operations import Step
from grampus.volumes.model import CloneSource


class CreateOrder(Model):
    """A creation as its steps need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: DatabaseSpec
    golden: CloneSource | None = None  # None: its data directory is initialised
    flatten: bool = False  # later, by whoever looks after it: see `DueFlattening`

    @model_validator(mode="before")
    @classmethod
    def _from_spec_alone(cls, document: Any) -> Any:
        """Release 0.1 journaled the spec alone; such a creation, cut off, is undone."""
        if isinstance(document, dict) and "spec" not in document:
            return {"spec": document}
        return document


def create_steps(ports: StepPorts, order: CreateOrder) -> list[Step]:
    """The creation; undone as a whole."""
    spec = order.spec
    if order.golden is None:
        return _initialised_steps(ports, spec)
    source = order.golden
    work = DatabaseWork(ports, spec)
    clone = Step(
        "volume",
        f"Clone a volume of {format_bytes(spec.size_bytes)} in pool {spec.pool} from "
        f"{source.image}",
        lambda: discard(ports.volumes.ensure_cloned(work.volume_spec(), source)),
        work.remove_volume,
    )
    return copied_steps(ports, spec, [clone], makes_accounts=True, flatten_due=order.flatten)


def copied_steps(
    ports: StepPorts,
    spec: DatabaseSpec,
    fill: list[Step],
    *,
    owner: str | None = None,
    makes_accounts: bool = False,
    flatten_due: bool = False,
    meanwhile: Sequence[Step] = (),
    before_start: Sequence[Step] = (),
    before_finish: Sequence[Step] = (),
) -> list[Step]:
    """A database on a volume that the steps of `fill` make, with a copied data directory on it.

    `owner` is the name of the copied database's own user, which stays: views and procedures of
    its name go on working. `makes_accounts` as in `identity.render_identity_sql`. With
    `flatten_due` it is recorded that its volume is to stand alone: that may take hours, and is no
    part of making it. The image's metadata is written, and `meanwhile` done, as the server starts.
    `before_start` comes once the volume is attached and its files are there, `before_finish` once
    the server serves, and before the database counts as ready.
    """
    work = DatabaseWork(ports, spec, owner=owner)
    first, *more = fill
    due = Step(
        "flatten-due",
        "Record that its volume is to be flattened",
        lambda: ports.records.change(spec.name, flatten_due=True),
    )
    return [
        *_first_steps(ports, spec, work),
        _with_certificates(spec, work, first),
        *more,
        _attach_step(ports, spec),
        Step("files", "Write configuration and certificates", work.files, work.remove_files),
        *before_start,
        Step("address", work.giving, work.give_address, work.take_address),
        Step(
            "start",
            f"Start the {spec.flavour} server with new passwords",
            lambda: work.begin_serving_as_new(makes_accounts=makes_accounts),
            work.remove_daemons,
        ),
        Step("metadata", "Record the database in the metadata of the image", work.write_facts),
        *meanwhile,
        Step(
            "serve",
            "Wait until its user can log in",
            lambda: work.finish_serving_as_new(is_new=makes_accounts),
        ),
        *([due] if flatten_due else []),
        *before_finish,
        Step("finish", "Record that it is ready", work.finish),
    ]


def _initialised_steps(ports: StepPorts, spec: DatabaseSpec) -> list[Step]:
    work = DatabaseWork(ports, spec)
    volume = "an encrypted volume" if spec.encryption else "a volume"
    return [
        *_first_steps(ports, spec, work),
        Step(
            "volume",
            f"Create {volume} of {format_bytes(spec.size_bytes)} in pool {spec.pool}",
            work.create_volume,
            work.remove_volume,
        ),
        _attach_step(ports, spec),
        Step("files", "Write configuration and certificates", work.files, work.remove_files),
        Step("initialise", "Initialise the data directory", work.initialise, work.stop_initialise),
        Step("address", work.giving, work.give_address, work.take_address),
        Step("serve", f"Start the {spec.flavour} server", work.serve, work.kill_server),
        Step("finish", "Record that it is ready", work.finish),
    ]


def _first_steps(ports: StepPorts, spec: DatabaseSpec, work: DatabaseWork) -> list[Step]:
    name = spec.name
    return [
        Step("record", f"Record {name}", work.record, lambda: ports.records.remove(name)),
        Step(
            "secrets",
            "Create passwords",
            work.secrets,
            lambda: ports.credentials.ensure_absent(name),
        ),
    ]


def _with_certificates(spec: DatabaseSpec, work: DatabaseWork, first: Step) -> Step:
    """A step on the cluster, and the certificates meanwhile, which the undo of `files` removes."""
    if spec.replica_of is not None:
        return first
    return replace(first, apply=lambda: work.make_certificates_during(first.apply))


def _attach_step(ports: StepPorts, spec: DatabaseSpec) -> Step:
    return Step(
        "attach",
        f"Attach the volume to {spec.host}",
        lambda: discard(ports.volumes.ensure_attached(spec.name, spec.host)),
        DatabaseWork(ports, spec).detach_own,
    )


CREATE = DatabaseOperation(
    kind="db.create",
    what="creation of the database",
    document=CreateOrder,
    build=create_steps,
    subject=lambda order: order.spec.name,
    when_cut_off="undo",
    address=lambda order: order.spec.held_address,
    takes=lambda order: order.spec.name,
    identity=new_identity,
)
