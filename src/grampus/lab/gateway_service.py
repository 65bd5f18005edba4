"""The gateway of a lab, brought up and taken away as journaled operations."""

from __future__ import annotations

from grampus.core.clock import Clock
from grampus.core.errors import NotFoundError, UsageError
from grampus.core.progress import Progress
from grampus.hosts.lab_host import LabFleet
from grampus.lab.gateway import GATEWAY_RECORD, GatewaySpec, LabGateway
from grampus.lab.images.cache import HostImages
from grampus.lab.model import LabSpec
from grampus.lab.operation_kinds import GATEWAY_DOWN, GATEWAY_UP, GatewaySteps
from grampus.operations.operation_type import OperationType
from grampus.operations.runner import OperationRunner, Subject
from grampus.state.home import Home
from grampus.state.operations import Step
from grampus.state.store import Store


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
        runner: OperationRunner,
        images: HostImages,
        fleet: LabFleet,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._lab = lab
        self._home = home
        self._store = store
        self._runner = runner
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
                    "Remove --host, or run `grampus lab gateway down` first.",
                )
            return existing
        chosen = self._fleet.lab_host(host or self._lab.host_names[-1]).name
        name = f"{self._lab.image_name}-gateway"
        try:
            definition = self._images.definition(name)
        except NotFoundError:
            raise UsageError(
                f"The host image '{self._lab.image_name}' has no gateway.",
                "Start a lab with the host image sid: `grampus lab up --image sid`.",
                code="no-gateway",
            ) from None
        image_id = definition.image_id
        if build_image:
            image_id = self._images.ensure(name, self._progress).id
        return GatewaySpec(host=chosen, image_id=image_id)

    def up(self, spec: GatewaySpec) -> None:
        """The gateway running, from whatever state it is in."""
        self._run(GATEWAY_UP, spec)

    def down(self) -> None:
        """The gateway gone, and all buckets with it; cut off, it is called again."""
        self._run(GATEWAY_DOWN, self.require())

    def _run(self, kind: OperationType[GatewaySteps, GatewaySpec], spec: GatewaySpec) -> None:
        unfinished = self._runner.unfinished("gateway.")
        self._runner.run(kind, self, spec, Subject(self._lab.name), supersedes=unfinished)

    def require(self) -> GatewaySpec:
        """The gateway that is there. Raises NotFoundError."""
        spec = find_gateway(self._store, self._lab.name)
        if spec is None:
            raise NotFoundError(
                f"The lab '{self._lab.name}' has no gateway.",
                "`grampus lab gateway up` starts one.",
            )
        return spec

    def up_steps(self, spec: GatewaySpec) -> list[Step]:
        """The steps of a start; they begin wherever the gateway is."""
        name = self._lab.name
        return self.gateway(spec).up_steps(
            lambda: self._store.put(GATEWAY_RECORD, name, name, spec)
        )

    def down_steps(self, spec: GatewaySpec) -> list[Step]:
        """The steps of its end."""
        name = self._lab.name
        return self.gateway(spec).down_steps(lambda: self._store.remove(GATEWAY_RECORD, name, name))

    def gateway(self, spec: GatewaySpec) -> LabGateway:
        """The gateway as it is reached."""
        return LabGateway(self._lab, spec, self._home, self._fleet, self._clock)
