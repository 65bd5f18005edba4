"""The gateway of a lab, brought up and taken away as journaled operations."""

from __future__ import annotations

from collections.abc import Sequence

from grampus.core.clock import Clock
from grampus.core.errors import NotFoundError, UsageError
from grampus.core.progress import Progress
from grampus.hosts.lab_host import LabFleet
from grampus.lab.gateway import GATEWAY_RECORD, GatewaySpec, LabGateway
from grampus.lab.images.cache import HostImages
from grampus.lab.model import LabSpec
from grampus.state.home import Home
from grampus.state.operations import OperationJournal, Step
from grampus.state.store import Store

_UP, _DOWN = "gateway.up", "gateway.down"


def find_gateway(store: Store, lab: str) -> GatewaySpec | None:
    """The lab's gateway, or None when it has none."""
    return store.get(GATEWAY_RECORD, lab, lab, GatewaySpec)


class GatewayService:
    """The gateway of one lab. The caller holds the lab."""

    def __init__(
        self,
        lab: LabSpec,
        home: Home,
        store: Store,
        journal: OperationJournal,
        images: HostImages,
        fleet: LabFleet,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._lab = lab
        self._home = home
        self._store = store
        self._journal = journal
        self._images = images
        self._fleet = fleet
        self._clock = clock
        self._progress = progress

    def plan_up(self, host: str | None, *, build_image: bool = True) -> GatewaySpec:
        """The gateway that is there, or a new one on `host` (default: the last one).

        Raises NotFoundError for the host, UsageError when the gateway is on another, or when the
        lab's host image has none that fits it.
        """
        existing = find_gateway(self._store, self._lab.name)
        if existing is not None:
            if host not in (None, existing.host):
                raise UsageError(
                    f"The gateway is on {existing.host}, not on {host}.",
                    "Leave --host out, or take the gateway down first.",
                )
            return existing
        chosen = self._fleet.lab_host(host or self._lab.host_names[-1]).name
        name = f"{self._lab.image_name}-gateway"
        try:
            definition = self._images.definition(name)
        except NotFoundError:
            raise UsageError(
                f"There is no gateway for the host image '{self._lab.image_name}'.",
                "Bring up a lab with the host image sid: `grampus lab up --image sid`.",
                code="no-gateway",
            ) from None
        image_id = definition.image_id
        if build_image:
            image_id = self._images.ensure(name, self._progress).id
        return GatewaySpec(host=chosen, image_id=image_id)

    def describe_up(self, spec: GatewaySpec) -> list[str]:
        """What `up` would do, one line a step."""
        return [step.title for step in self._up_steps(spec)]

    def up(self, spec: GatewaySpec) -> LabGateway:
        """The gateway running, from whatever state it is in."""
        self._run(_UP, spec, self._up_steps(spec))
        return self._gateway(spec)

    def describe_down(self) -> list[str]:
        """What `down` would do, one line a step. Raises NotFoundError."""
        return [step.title for step in self._down_steps(self._require())]

    def down(self) -> None:
        """The gateway gone, and all buckets with it; cut off, it is called again."""
        spec = self._require()
        self._run(_DOWN, spec, self._down_steps(spec))

    def _run(self, kind: str, spec: GatewaySpec, steps: Sequence[Step]) -> None:
        unfinished = self._journal.unfinished(self._lab.name, kind_prefix="gateway.")
        document = spec.model_dump(mode="json")
        operation = self._journal.begin(kind, self._lab.name, self._lab.name, document)
        for older in unfinished:
            self._journal.close_unapplied(older, f"taken over by operation {operation.id}")
        # What is begun stays: `up` and `down` go on from anywhere.
        self._journal.apply(operation, steps, self._progress, undo_on_failure=False)

    def _require(self) -> GatewaySpec:
        spec = find_gateway(self._store, self._lab.name)
        if spec is None:
            raise NotFoundError(
                f"The lab '{self._lab.name}' has no gateway.",
                "`grampus lab gateway up` makes one.",
            )
        return spec

    def _up_steps(self, spec: GatewaySpec) -> list[Step]:
        name = self._lab.name
        return self._gateway(spec).up_steps(
            lambda: self._store.put(GATEWAY_RECORD, name, name, spec)
        )

    def _down_steps(self, spec: GatewaySpec) -> list[Step]:
        name = self._lab.name
        return self._gateway(spec).down_steps(
            lambda: self._store.remove(GATEWAY_RECORD, name, name)
        )

    def _gateway(self, spec: GatewaySpec) -> LabGateway:
        return LabGateway(self._lab, spec, self._home, self._fleet, self._clock)
