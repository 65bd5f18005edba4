"""Optional parts of a lab (object gateway, monitoring): started and removed as operations.

`PartService` is the same for all of them. A part is its record, its host image and its steps
(`PartSteps`). A start or a removal that was interrupted is repeated by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, Protocol, TypeVar

from pydantic import ConfigDict

from grampus.core.clock import Clock
from grampus.core.errors import NotFoundError, UsageError
from grampus.core.models import Model
from grampus.core.progress import Progress
from grampus.hosts.lab_host import LabFleet
from grampus.lab.images.cache import HostImages
from grampus.lab.model import LabSpec
from grampus.operations.operation_type import OperationType
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.operations import Step
from grampus.state.store import Store


class PartSpec(Model):
    """A part of a lab, with all that starting it needs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    image_id: str  # the host image that holds its programs


class PartSteps(Protocol):
    """What starts a part and removes it; each step may be repeated."""

    def up_steps(self, keep_record: Callable[[], None]) -> list[Step]: ...

    def down_steps(self, forget: Callable[[], None]) -> list[Step]: ...

    def ensure_daemons(self) -> None:
        """Its daemons again, after the lab was down."""


SpecT = TypeVar("SpecT", bound=PartSpec)


@dataclass(frozen=True)
class PartKind(Generic[SpecT]):
    """One part that labs can have."""

    noun: str  # as in `grampus lab NOUN up`
    record: str
    document: type[SpecT]
    image_of: Callable[[LabSpec], str]  # the name of its host image
    make_steps: Callable[[LabSpec, SpecT, Home, LabFleet, Clock], PartSteps]

    @property
    def up(self) -> OperationType[PartService[SpecT], SpecT]:
        """The start as an operation."""
        return self._operation("up", "start", PartService.up_steps)

    @property
    def down(self) -> OperationType[PartService[SpecT], SpecT]:
        """The removal as an operation."""
        return self._operation("down", "end", PartService.down_steps)

    def _operation(
        self, verb: str, what: str, build: Callable[[PartService[SpecT], SpecT], list[Step]]
    ) -> OperationType[PartService[SpecT], SpecT]:
        return OperationType(
            f"{self.noun}.{verb}",
            f"{what} of the {self.noun} of the lab",
            document=self.document,
            build=build,
            when_cut_off="finish",
        )

    def find(self, store: Store, lab: str) -> SpecT | None:
        """The lab's part, or None when it has none."""
        return store.get(self.record, lab, lab, self.document)


class PartService(Generic[SpecT]):
    """A part of one lab. The caller holds the lab."""

    def __init__(
        self,
        kind: PartKind[SpecT],
        lab: LabSpec,
        home: Home,
        store: Store,
        runner: OperationRunner,
        images: HostImages,
        fleet: LabFleet,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._kind = kind
        self._lab = lab
        self._home = home
        self._store = store
        self._runner = runner
        self._images = images
        self._fleet = fleet
        self._clock = clock
        self._progress = progress

    def plan_up(self, host: str | None, *, build_image: bool = True) -> SpecT:
        """The part that is there, or a new one on `host` (default: the last one).

        Raises NotFoundError for the host, UsageError when the part is on another, or when there is
        no image of it that fits the lab's host image.
        """
        noun = self._kind.noun
        existing = self._kind.find(self._store, self._lab.name)
        if existing is not None:
            if host not in (None, existing.host):
                raise UsageError(
                    f"The {noun} is on {existing.host}, not on {host}.",
                    f"Remove --host, or run `grampus lab {noun} down` first.",
                )
            return existing
        chosen = self._fleet.lab_host(host or self._lab.host_names[-1]).name
        name = self._kind.image_of(self._lab)
        try:
            definition = self._images.definition(name)
        except NotFoundError:
            raise UsageError(
                f"The host image '{self._lab.image_name}' has no {noun}.",
                "Start a lab with the host image sid: `grampus lab up --image sid`.",
                code=f"no-{noun}",
            ) from None
        image_id = definition.image_id
        if build_image:
            image_id = self._images.ensure(name, self._progress).id
        return self._kind.document(host=chosen, image_id=image_id)

    def up(self, spec: SpecT) -> None:
        """The part running, from whatever state it is in."""
        self._run(self._kind.up, spec)

    def down(self) -> None:
        """The part removed, with all that it holds; cut off, it is called again."""
        self._run(self._kind.down, self.require())

    def _run(self, kind: OperationType[PartService[SpecT], SpecT], spec: SpecT) -> None:
        unfinished = self._runner.unfinished(f"{self._kind.noun}.")
        self._runner.run(kind, self, spec, Subject(self._lab.name), supersedes=unfinished)

    def require(self) -> SpecT:
        """The part that is there. Raises NotFoundError."""
        spec = self._kind.find(self._store, self._lab.name)
        if spec is None:
            raise NotFoundError(
                f"The lab '{self._lab.name}' has no {self._kind.noun}.",
                f"`grampus lab {self._kind.noun} up` starts one.",
            )
        return spec

    def up_steps(self, spec: SpecT) -> list[Step]:
        """The steps of a start; they begin wherever the part is."""
        name = self._lab.name
        return self._steps(spec).up_steps(
            lambda: self._store.put(self._kind.record, name, name, spec)
        )

    def down_steps(self, spec: SpecT) -> list[Step]:
        """The steps of its removal."""
        name = self._lab.name
        return self._steps(spec).down_steps(
            lambda: self._store.remove(self._kind.record, name, name)
        )

    def _steps(self, spec: SpecT) -> PartSteps:
        return self._kind.make_steps(self._lab, spec, self._home, self._fleet, self._clock)


# The part of each record; a part is imported when a lab has it.
PARTS: Mapping[str, str] = {
    "lab-gateway": "grampus.lab.gateway:GATEWAY",
    "lab-monitoring": "grampus.lab.monitoring:MONITORING",
}


def restart_steps(
    lab: LabSpec, home: Home, store: Store, fleet: LabFleet, clock: Clock
) -> list[Step]:
    """The steps of `lab up` that start the parts of the lab again."""
    steps = []
    for record, place in PARTS.items():
        if not store.names(record, lab.name):
            continue
        module, _, name = place.partition(":")
        kind: PartKind[PartSpec] = getattr(import_module(module), name)
        spec = kind.find(store, lab.name)
        if spec is not None:
            part = kind.make_steps(lab, spec, home, fleet, clock)
            title = f"Start the {kind.noun} on {spec.host}"
            steps.append(Step(kind.noun, title, part.ensure_daemons))
    return steps
