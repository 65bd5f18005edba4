"""From a request to a spec: everything is checked and chosen before anything is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.meanwhile import meanwhile
from grampus.core.units import MIB
from grampus.databases.host_addresses import assign_address
from grampus.databases.model import DEFAULT_WRITE_PATH, FALLBACK_WRITE_PATH, DatabaseSpec
from grampus.databases.placement import (
    AssignedAddress,
    HostLoad,
    decide_placement,
    parse_memory_total,
)
from grampus.databases.ports import ClusterPort, ImagePort, VolumePort
from grampus.databases.records import DatabaseRecords
from grampus.databases.request import (
    CreateRequest,
    MachineSize,
    require_machine_holds,
    require_request,
)
from grampus.hosts.port import Fleet, Host, HostUnreachableError
from grampus.volumes.decide_external_log import decide_external_log
from grampus.volumes.model import EncryptionName, WritePath
from grampus.volumes.write_paths import (
    decide_journal_memory_bytes,
    decide_journal_pool,
    decide_max_lag_ms,
)

# A clone writes little at first, but a pool with less has no room for long.
SHARING_ROOM_BYTES = 256 * MIB
# What says that no driver serves a write path on a host.
NOT_SERVED = ("no-volumed", "no-driver")


class CreatePlanner:
    """Turns requests into specs."""

    def __init__(
        self,
        records: DatabaseRecords,
        fleet: Fleet,
        volumes: VolumePort,
        images: ImagePort,
        cluster: ClusterPort,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._volumes = volumes
        self._images = images
        self._cluster = cluster

    def plan(
        self,
        request: CreateRequest,
        used_addresses: Collection[str],
        *,
        like: DatabaseSpec | None = None,
    ) -> DatabaseSpec:
        """The spec of a database as asked for. Errors as `DatabaseService.plan_create`.

        `like` is the database whose data it shares: it is in the same pool, has the same server
        and parameters, and takes little room of its own yet (`require_sharing_room`).
        """
        flavour = require_request(request)
        self.require_name_free(request.name)
        host = self._choose_host(request.host)
        asked: EncryptionName | None = "luks2" if request.encrypt else None
        encryption = like.encryption if like else asked
        assigned: list[AssignedAddress] = []
        # To ask a network segment who has an address takes longer than all that is asked beside.
        with meanwhile(lambda: assigned.append(assign_address(self._fleet, used_addresses, host))):
            require_machine_holds(request, observe_machine(host), host.name)
            write_path = self._choose_write_path(request.write_path, host, encryption)
            pool = like.pool if like else request.pool or self._cluster.volume_pool()
            if like is None:
                self._cluster.check_room(pool, request.size_bytes)
            journal_pool = decide_journal_pool(write_path, request.journal_pool, pool=pool)
            self._volumes.check_journal_pool(journal_pool, pool, request.size_bytes)
        return DatabaseSpec(
            name=request.name,
            flavour=flavour,
            size_bytes=request.size_bytes,
            memory_bytes=request.memory_bytes,
            cpus=request.cpus,
            pool=pool,
            host=host.name,
            **assigned[0].changes(),
            # Last: it may take minutes.
            image_id=like.image_id if like else self._images.image_for(flavour, request.version),
            protected=request.protect,
            write_path=write_path,
            max_lag_ms=decide_max_lag_ms(write_path, request.max_lag_ms),
            journal_memory_bytes=decide_journal_memory_bytes(
                write_path, request.journal_memory_bytes
            ),
            journal_pool=journal_pool,
            encryption=encryption,
            external_log_bytes=like.external_log_bytes
            if like
            else decide_external_log(write_path, request.size_bytes),
            parameters=like.parameters if like else {},
            binlog_retention_s=like.binlog_retention_s if like else request.binlog_retention_s,
            recovery_goal_s=like.recovery_goal_s if like else request.recovery_goal_s,
            failover=request.failover,
            maintenance_window=request.maintenance_window,
        )

    @contextmanager
    def waking(self, host: str | None) -> Iterator[None]:
        """Meanwhile, the host that `plan` is about to choose gets ready to run commands.

        The first one takes it 0.1 to 0.3 s. What is wrong with the host, `plan` says.
        """
        try:
            chosen = self._choose_host(host)
        except GrampusError:
            yield
            return

        def wake() -> None:
            with suppress(GrampusError):
                chosen.run(["true"], check=False)

        with meanwhile(wake):
            yield

    def settle_address(self, spec: DatabaseSpec, used_addresses: Collection[str]) -> DatabaseSpec:
        """The spec with another address if its own was taken since it was planned."""
        if spec.held_address not in used_addresses:
            return spec
        assigned = assign_address(self._fleet, used_addresses, self._fleet.host(spec.host))
        return spec.model_copy(update=assigned.changes())

    def require_sharing_room(self, source: DatabaseSpec) -> None:
        """Raise RefusedError with code `pool-full` when the source's pool takes no clone of it.

        To be asked before anything of the source's image is: while a pool is full Ceph answers
        nobody who opens an image in it, and a snapshot would make the source's writers wait too.
        """
        self._cluster.check_room(source.pool, SHARING_ROOM_BYTES)

    def require_room(self, spec: DatabaseSpec) -> None:
        """Raise RefusedError with code `pool-full` when its pool cannot take all of it."""
        self._cluster.check_room(spec.pool, spec.size_bytes)

    def require_name_free(self, name: str) -> None:
        """Raise RefusedError with code `name-taken` when a database or volume has that name."""
        if self._records.find(name) is not None:
            raise RefusedError(
                f"A database named '{name}' already exists.",
                f"Choose another name, or see `grampus db show {name}`.",
                code="name-taken",
            )
        try:
            self._volumes.get(name)
        except NotFoundError:
            return
        raise RefusedError(
            f"A volume named '{name}' already exists.",
            f"Choose another name, or see `grampus volume show {name}`.",
            code="name-taken",
        )

    def _choose_write_path(
        self, wanted: WritePath | None, host: Host, encryption: EncryptionName | None
    ) -> WritePath:
        """As wanted; else the default one, if a driver of that host serves it."""
        try:
            self._volumes.require_served(host.name, wanted or DEFAULT_WRITE_PATH, encryption)
        except GrampusError as error:
            is_needed = wanted is not None or encryption is not None
            if is_needed or error.code not in NOT_SERVED:
                raise
            return FALLBACK_WRITE_PATH
        return wanted or DEFAULT_WRITE_PATH

    def _choose_host(self, wanted: str | None) -> Host:
        if wanted is not None:
            host = self._fleet.host(wanted)
            if not self._fleet.is_reachable(wanted):
                raise HostUnreachableError(
                    f"The host {wanted} cannot be reached.",
                    "Choose another host with --host, or remove --host.",
                )
            return host
        # Only hosts that would be chosen are asked: an answer takes a tenth of a second on a site.
        loads = {load.name: load for load in assume_loads(self._records, self._fleet)}
        while not self._fleet.is_reachable(name := decide_placement(list(loads.values()))):
            loads[name] = replace(loads[name], reachable=False)
        return self._fleet.host(name)


def assume_loads(records: DatabaseRecords, fleet: Fleet) -> list[HostLoad]:
    """Every host as placement sees it if all of them can be reached."""
    databases, in_maintenance = Counter(records.hosts().values()), records.all_maintenance()
    return [
        HostLoad(
            host.name,
            True,
            databases[host.name],
            in_maintenance=host.name in in_maintenance,
        )
        for host in fleet.hosts()
    ]


def observe_loads(records: DatabaseRecords, fleet: Fleet) -> list[HostLoad]:
    """Every host as placement sees it."""
    return [
        replace(load, reachable=fleet.is_reachable(load.name))
        for load in assume_loads(records, fleet)
    ]


def observe_machine(host: Host) -> MachineSize:
    """What the machine under `host` has."""
    meminfo = host.read_file(PurePosixPath("/proc/meminfo")) or ""
    cpus = int(host.run(["getconf", "_NPROCESSORS_ONLN"]).stdout)
    return MachineSize(memory_bytes=parse_memory_total(meminfo), cpus=cpus)
