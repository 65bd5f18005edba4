"""OSDs of a lab made, started and taken away, as planned (`osd_plans.py`).

Every function is idempotent: it looks at what is there and does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath

from grampus.ceph.cluster import CephCluster
from grampus.core.errors import GrampusError
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.media import disk_model
from grampus.hosts.port import Host
from grampus.lab.ceph_daemons import osd_daemon, osd_spec
from grampus.lab.making import in_parallel, new_key
from grampus.lab.model import LabSpec
from grampus.lab.object_stores import OBJECT_STORES, ObjectStore, OsdPlace
from grampus.lab.osd_plans import DeviceSlice, OsdPlan, decide_first_osds
from grampus.lab.osd_set import ObjectStoreName
from grampus.lab.slice_devices import SliceDevices, decide_limit, lifted
from grampus.lab.waiting import ClusterWaits

UP_TIMEOUT_S = 120.0
# What was written without limits is on the machine's disk by then.
SYNC_TIMEOUT_S = 300.0


class LabOsds:
    """Makes and removes them, on hosts that are up, while the MONs have a quorum."""

    def __init__(
        self,
        spec: LabSpec,
        fleet: LabFleet,
        cluster: CephCluster,
        waits: ClusterWaits,
        devices: SliceDevices | None = None,
    ) -> None:
        """`devices` are what the OSDs stand on (default: with volumed of this installation)."""
        self._spec = spec
        self._fleet = fleet
        self._cluster = cluster
        self._waits = waits
        self._devices = devices or SliceDevices()

    def ensure(self, plans: Sequence[OsdPlan], *, what: str) -> None:
        """Every OSD made, started, up and in; `what` they are called when they do not come up."""
        # One after the other: the MONs give out ids in order, so that osd.0 stands on h1.
        ids = [self._ensure_id(plan) for plan in plans]
        in_parallel(self._leave_failed_disk, list(zip(plans, ids, strict=True)))
        # Before the OSDs, of which several may stand on one disk.
        disks = {(plan.host, plan.data.file): plan.data for plan in plans}
        in_parallel(self._ensure_disk, [(host, part) for (host, _), part in disks.items()])
        in_parallel(self._ensure_osd, list(zip(plans, ids, strict=True)))
        self._waits.until(
            lambda: self._are_up(ids), f"{what} to be up and in", "osd-", timeout_s=UP_TIMEOUT_S
        )

    def ensure_absent(self, plans: Sequence[OsdPlan]) -> None:
        """None of them is left, nor anything on its host or in the cluster's map."""
        ids = {osd["uuid"]: int(osd["osd"]) for osd in self._cluster.query("osd", "dump")["osds"]}
        found = [(plan, ids.get(plan.uuid)) for plan in plans]
        # All first: the devices of one may be slices of another's file.
        in_parallel(self._stop, found)
        # Of one host one after the other: they look for the same loop devices.
        for item in found:
            self._remove_store(item)
        for name in sorted({plan.host for plan in plans}):
            host = self._fleet.host(name)
            parts = [
                part
                for plan, osd_id in found
                if plan.host == name and osd_id is not None
                for part in slices(self._spec, plan, osd_id)
            ]
            self._devices.ensure_absent(host, osd_directory(host), parts)
        for plan, osd_id in found:
            if osd_id is not None:
                self._cluster.ceph("osd", "down", str(osd_id))
                self._cluster.ceph(
                    *("osd", "purge", str(osd_id), "--force", "--yes-i-really-mean-it")
                )
            # Only now: what is in them finds the OSD again.
            host = self._fleet.host(plan.host)
            directory = osd_directory(host)
            files = [plan.data.file, *([] if plan.wal_db is None else [plan.wal_db.file])]
            names = (*files, _record(plan), _secret(plan))
            host.run(["rm", "-f", *(str(directory / name) for name in names)])

    def lift_limits(self, plans: Sequence[OsdPlan]) -> None:
        """Their devices are as fast as the machine's, until `impose_limits` or their next start."""
        self._set_limits(plans, is_limited=False)

    def impose_limits(self, plans: Sequence[OsdPlan]) -> None:
        """Their devices are limited as their media again; what was written before is on them.

        Raises GrampusError with code `no-device` rather than to leave one of them without limits.
        """
        for name in sorted({plan.host for plan in plans}):
            # FileStore's writes may be in the file system's cache yet.
            self._fleet.host(name).run(["sync"], timeout_s=SYNC_TIMEOUT_S)
        self._set_limits(plans, is_limited=True)

    def _set_limits(self, plans: Sequence[OsdPlan], *, is_limited: bool) -> None:
        """Of the OSDs that are there: the others get their limits when they start."""
        ids = {osd["uuid"]: int(osd["osd"]) for osd in self._cluster.query("osd", "dump")["osds"]}
        for plan in plans:
            osd_id = ids.get(plan.uuid)
            if osd_id is None:
                continue
            host = self._fleet.lab_host(plan.host)
            for part, reference in slices(self._spec, plan, osd_id):
                device = require_slice_device(self._devices, host, osd_id, part, reference)
                limit = decide_limit(part, device)
                host.set_block_limit(osd_daemon(osd_id), limit if is_limited else lifted(limit))
                self._devices.set_paced(host, osd_directory(host), part, is_paced=is_limited)

    def observe(self, plans: Sequence[OsdPlan]) -> dict[int, bool]:
        """Those that the cluster knows, by id: whether each is up."""
        wanted = {plan.uuid for plan in plans}
        dump = self._cluster.query("osd", "dump")["osds"]
        return {int(osd["osd"]): bool(osd["up"]) for osd in dump if osd["uuid"] in wanted}

    def _are_up(self, ids: Sequence[int]) -> bool:
        dump = self._cluster.query("osd", "dump")["osds"]
        return set(ids) <= {int(osd["osd"]) for osd in dump if osd["up"] and osd["in"]}

    def _ensure_id(self, plan: OsdPlan) -> int:
        host = self._fleet.host(plan.host)
        directory = osd_directory(host)
        record = host.read_file(directory / _record(plan))
        if record is not None:
            return int(json.loads(record)["id"])
        secret = host.read_file(directory / _secret(plan))
        if secret is None:
            # Kept before it is used: `osd new` answers alike only to the same secret.
            secret = json.dumps({"cephx_secret": new_key(host)})
            host.write_file(directory / _secret(plan), secret, mode=0o600)
        made = self._cluster.ceph("osd", "new", plan.uuid, "-i", "-", stdin=secret)
        osd_id = int(made.stdout)
        record = json.dumps({"id": osd_id, "uuid": plan.uuid})
        host.write_file(directory / _record(plan), record)
        return osd_id

    def _leave_failed_disk(self, item: tuple[OsdPlan, int]) -> None:
        """End an OSD whose emulated disk has ended: it would keep what is left of the disk."""
        plan, osd_id = item
        data, reference = slices(self._spec, plan, osd_id)[0]
        host = self._fleet.host(plan.host)
        if disk_model(data.media) is None:
            return
        if self._devices.find(host, osd_directory(host), data, reference) is None:
            host.ensure_daemon_absent(osd_daemon(osd_id), kill=True)
            object_store(plan.objectstore).ensure_detached(host, osd_id)

    def _ensure_disk(self, item: tuple[str, DeviceSlice]) -> None:
        name, part = item
        host = self._fleet.host(name)
        self._devices.ensure_file(host, osd_directory(host), part)

    def _ensure_osd(self, item: tuple[OsdPlan, int]) -> None:
        plan, osd_id = item
        host = self._fleet.host(plan.host)
        found = [
            (part, self._devices.ensure(host, osd_directory(host), part, reference))
            for part, reference in slices(self._spec, plan, osd_id)
        ]
        devices = [device for _, device in found]
        secret = json.loads(host.read_file(osd_directory(host) / _secret(plan)) or "{}")
        place = OsdPlace(
            osd_id,
            plan.uuid,
            devices[0],
            None if plan.wal_db is None else devices[1],
            secret.get("cephx_secret"),
        )
        store = object_store(plan.objectstore)
        store.ensure_made(host, place)
        store.ensure_ready(host, place)
        location = plan.crush_location
        host.ensure_daemon(
            osd_spec(
                osd_id,
                place.devices,
                tuple(decide_limit(part, device) for part, device in found),
                host.data_dir,
                cpus=plan.cpus,
                thread_cache_mib=plan.thread_cache_mib,
                memory_target_mib=plan.memory_target_mib,
                arguments=() if location is None else ("--crush-location", location),
                binds=store.binds(host, place),
            )
        )

    def _stop(self, item: tuple[OsdPlan, int | None]) -> None:
        plan, osd_id = item
        if osd_id is not None:
            self._fleet.host(plan.host).ensure_daemon_absent(osd_daemon(osd_id))

    def _remove_store(self, item: tuple[OsdPlan, int | None]) -> None:
        plan, osd_id = item
        if osd_id is not None:
            object_store(plan.objectstore).ensure_absent(self._fleet.host(plan.host), osd_id)


def object_store(name: ObjectStoreName) -> ObjectStore:
    """The object store of that name. Raises GrampusError when no lab can make it."""
    store = OBJECT_STORES.get(name)
    if store is None:
        raise GrampusError(
            f"{name} is not an object store for the OSDs of a lab.",
            f"Choose one of {', '.join(OBJECT_STORES)}.",
            code="no-objectstore",
        )
    return store


def find_first_osd(spec: LabSpec, host: Host, osd_id: int) -> OsdPlan | None:
    """The plan of an OSD on that host, if it is one that the lab was made with."""
    for plan in decide_first_osds(spec):
        record = (
            host.read_file(osd_directory(host) / _record(plan)) if plan.host == host.name else None
        )
        if record is not None and json.loads(record)["id"] == osd_id:
            return plan
    return None


def slices(spec: LabSpec, plan: OsdPlan, osd_id: int) -> list[tuple[DeviceSlice, str]]:
    """What an OSD stands on, that of the data first, and what marks the devices of each."""
    reference = osd_reference(spec, osd_id)
    wal_db = [] if plan.wal_db is None else [(plan.wal_db, f"{reference}-db")]
    return [(plan.data, reference), *wal_db]


def require_slice_device(
    devices: SliceDevices, host: Host, osd_id: int, part: DeviceSlice, reference: str
) -> str:
    """What an OSD stands on. Raises GrampusError with code `no-device`."""
    found = devices.find(host, osd_directory(host), part, reference)
    if found is None:
        raise GrampusError(
            f"{osd_daemon(osd_id)} on {host.name} has lost a block device.",
            "`grampus lab up` starts it again.",
            code="no-device",
        )
    return found


def osd_reference(spec: LabSpec, osd_id: int) -> str:
    """What marks the loop device over the file of an OSD's data."""
    return f"grampus/{spec.tag}/osd-{osd_id}"


def osd_directory(host: Host) -> PurePosixPath:
    """Where a host keeps what its OSDs stand on."""
    return host.data_dir / "osd"


def _record(plan: OsdPlan) -> str:
    return f"{plan.slot}.json"


def _secret(plan: OsdPlan) -> str:
    return f"{plan.slot}.secret.json"
