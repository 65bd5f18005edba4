"""What an external cluster does not have: databases, guests, OSD sets, kernels to tune.

What asks for one is refused before (`offers.py`); these say so once more where an environment would
be made all the same. What merely looks finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grampus.bench.environments.environment_records import BenchEnvironment
from grampus.bench.environments.osd_needs import OWN, OsdFill, OsdNeeds, PlaceOsds
from grampus.bench.measured_ports import IoDevice
from grampus.core.errors import RefusedError
from grampus.databases.growth.decide_growth import FileSystem
from grampus.databases.model import DatabaseRecord, DatabaseSpec, Endpoint
from grampus.volumes.model import DriverName


def not_here(what: str) -> RefusedError:
    """The error of whoever wants `what` (a noun in the plural) on such a cluster."""
    return RefusedError(
        f"Grampus makes no {what} on an external cluster.",
        "Measure that in a lab (`grampus lab up`).",
        code="not-here",
    )


class NoDatabases:
    """An `EnvironmentDatabases` without any."""

    def settle(self, name: str) -> None:
        """There is nothing."""

    def find(self, name: str) -> DatabaseRecord | None:
        return None

    def create(
        self,
        name: str,
        environment: BenchEnvironment,
        parameters: Mapping[str, str],
        *,
        host: str | None,
    ) -> None:
        raise not_here("databases")

    def ensure_running(self, name: str) -> None:
        raise not_here("databases")

    def ensure_driver(self, name: str, driver: DriverName) -> None:
        raise not_here("databases")

    def ensure_stopped(self, name: str) -> None:
        raise not_here("databases")

    def endpoint(self, name: str) -> Endpoint:
        raise not_here("databases")

    def observe_variables(self, name: str, names: tuple[str, ...]) -> dict[str, str]:
        raise not_here("databases")

    def record_parameters(self, name: str, parameters: Mapping[str, str]) -> None:
        raise not_here("databases")

    def set_live(self, name: str, values: Mapping[str, str]) -> None:
        raise not_here("databases")

    def restart(self, name: str) -> None:
        raise not_here("databases")

    def observe_rooms(self, names: Sequence[str]) -> Mapping[str, FileSystem]:
        return {}

    def ensure_absent(self, name: str) -> None:
        """There is nothing."""


class NoGuests:
    """An `EnvironmentGuests` without any."""

    def ensure_image(self) -> None:
        raise not_here("virtual machines")

    def ensure_serving(self, spec: DatabaseSpec) -> None:
        raise not_here("virtual machines")

    def ensure_absent(self, name: str) -> None:
        """There is nothing."""

    def note(self, host: str) -> str | None:
        return None


class NoOsdSets:
    """An `EnvironmentOsdSets` of OSDs that are as they are. `total_bytes` is all their room."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes

    def place_osds(self) -> PlaceOsds:
        first = OsdNeeds(media=OWN, objectstore=OWN, wal_db_device=OWN)
        # As if all of it were one OSD: what "room that is provisioned" asks for is their sum.
        return PlaceOsds(first, hosts=1, first_bytes=self._total_bytes)

    def is_there(self, name: str) -> bool:
        return False

    def ensure(self, needs: OsdNeeds) -> None:
        raise not_here("OSDs")

    def lift_limits(self, name: str) -> None:
        raise not_here("OSDs")

    def impose_limits(self, name: str) -> None:
        """There is nothing."""

    def ensure_absent(self, name: str) -> None:
        """There is nothing."""

    def observe_fill(self, name: str) -> OsdFill:
        raise not_here("OSDs")


class NoTuning:
    """A `TuningPort` of what is not ours to tune."""

    def observe_options(self) -> Mapping[str, str]:
        return {}

    def set_options(self, options: Mapping[str, str | None]) -> None:
        raise not_here("tuning profiles")

    def restart_osds(self) -> None:
        raise not_here("tuning profiles")

    def observe_kernel(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        return {}

    def set_kernel(self, host: str, values: Mapping[str, str]) -> None:
        raise not_here("tuning profiles")


class OneHost:
    """A `LayoutPort`: the load generators' host, whatever a cell says, without budgets."""

    def __init__(self, host: str) -> None:
        self._host = host

    @property
    def osd_hosts(self) -> Sequence[str]:
        # Where there are no others, these are where everything is.
        return (self._host,)

    @property
    def other_hosts(self) -> Sequence[str]:
        return ()

    def observe_quotas(self) -> Mapping[str, Mapping[str, float]]:
        return {}

    def set_quota(self, host: str, group: str, cores: float | None) -> None:
        raise not_here("budgets")


class NoDevices:
    """A `DevicesPort` of a cluster whose disks are not on this machine."""

    def io_devices(self) -> list[IoDevice]:
        return []
