"""Bit rot: a bit of one stored copy of an object flipped on the device, behind the OSD's back.

The OSD is stopped for it, which databases bear as any loss of one OSD, so that its own tool can say
where the object's bytes lie; the flip itself goes past all of Ceph. BlueStore's checksum then fails
at the next read of that place: by a client (the primary reads another OSD's copy instead, and
repairs its own) or by a deep scrub. (`ceph-objectstore-tool set-bytes` would write a new checksum
beside the wrong data, which is no rot of a medium.)

A client that overwrites part of such a chunk before it is repaired ends the OSD, as it would with a
real rotten medium (see `decide_objects`), and again at each start. So each flip is noted beside the
OSD, and taken back from one that has ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import ConfigDict, TypeAdapter

from grampus.ceph.cluster import CephCluster
from grampus.ceph.connecting import CONNECT
from grampus.ceph.image_objects import observe_layers
from grampus.ceph.namespaces import join_place
from grampus.ceph.placement_groups import decide_group
from grampus.ceph.scrubs import Scrubs
from grampus.core.clock import Clock, wait_until
from grampus.core.errors import GrampusError, NotFoundError, RefusedError
from grampus.core.models import Model
from grampus.core.progress import Progress
from grampus.hosts.any_host import AnyReachableHost
from grampus.hosts.lab_host import LabFleet
from grampus.hosts.loop_devices import find_loop_device_below
from grampus.hosts.port import Host
from grampus.lab.ceph_daemons import osd_daemon, osd_spec
from grampus.lab.decide_rot import (
    decide_device_offset_bytes,
    decide_objects,
    decide_osd,
    require_whole,
)
from grampus.lab.model import LabSpec
from grampus.lab.osd_devices import OsdDevice, observe_osd_devices
from grampus.lab.osd_plans import OSD_CPUS, THREAD_CACHE_MIB, OsdPlan
from grampus.lab.osds import (
    find_first_osd,
    osd_directory,
    osd_reference,
    require_slice_device,
)
from grampus.lab.slice_devices import SliceDevices, decide_limit

# Arguments: device, place, and (to take it back) the digest of the chunk as the flip left it: then
# nothing is done once somebody has written there. Prints the digest after the flip. Synchronised:
# what stays in the device's page cache is no rot.
FLIP_BIT = """
import hashlib, os, sys
CHUNK = 4096
device, place = os.open(sys.argv[1], os.O_RDWR), int(sys.argv[2])
start = place // CHUNK * CHUNK
chunk = bytearray(os.pread(device, CHUNK, start))
if len(sys.argv) < 4 or hashlib.sha256(chunk).hexdigest() == sys.argv[3]:
    chunk[place - start] ^= 1
    os.pwrite(device, chunk, start)
    os.fsync(device)
    print(hashlib.sha256(chunk).hexdigest())
"""
# When each object was last written to, over one connection; one that is gone is left out.
LIST_WRITES = f"""
{CONNECT}
import calendar, json, sys, rados
found = {{}}
pool, _, namespace = sys.argv[1].partition("/")
with connect() as cluster, cluster.open_ioctx(pool) as context:
    context.set_namespace(namespace)
    for name in json.load(sys.stdin):
        try:
            found[name] = calendar.timegm(context.stat(name)[1])
        except rados.ObjectNotFound:
            pass
print(json.dumps(found))
"""
_TOOL_TIMEOUT_S = 120.0
_UP_TIMEOUT_S = 120.0
_HEAD = -2  # the tool's number of what is not a snapshot


@dataclass(frozen=True)
class RotPlan:
    """Which copies of which objects are spoilt."""

    osd: int
    host: str
    device: str  # the medium, below what the OSD opens
    namespace: str  # of the objects
    groups: dict[str, str]  # placement groups by object


@dataclass(frozen=True)
class FlippedBit:
    """One flipped bit."""

    object: str
    group: str
    offset_bytes: int  # of its byte on the device


class NotedFlip(Model):
    """A flip as it is noted beside its OSD."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset_bytes: int
    digest: str  # SHA-256 of the chunk of 4 KiB around it, as the flip left it


_NOTES = TypeAdapter(list[NotedFlip])


class BitRot:
    """Flips bits on the OSDs of one lab."""

    def __init__(self, spec: LabSpec, fleet: LabFleet, clock: Clock, progress: Progress) -> None:
        self._spec = spec
        self._fleet = fleet
        self._clock = clock
        self._progress = progress
        self._cluster = CephCluster(AnyReachableHost(fleet))
        self._scrubs = Scrubs(self._cluster)

    def plan(self, pool: str, image: str, *, osd: int | None, count: int) -> RotPlan:
        """Which copies would be spoilt; nothing is changed.

        Of a clone, objects of its own are, or those of its parent as long as it has none. Raises
        RefusedError with code `no-data`, or `not-whole` when a copy is missing or damaged already,
        and NotFoundError when that OSD holds nothing of the image.
        """
        layers = [layer for layer in observe_layers(self._cluster, pool, image) if layer.numbers]
        if not layers:
            raise RefusedError(
                f"The image {pool}/{image} has no data yet.",
                "Write data to it first.",
                code="no-data",
            )
        layer = layers[0]
        placement = self._scrubs.placement(layer.pool)
        groups = {
            name: decide_group(placement, name, namespace=layer.namespace)
            for name in layer.data_objects
        }
        stand = self._scrubs.observe(set(groups.values()))
        require_whole(list(stand.values()))
        acting = {name: stand[group].acting for name, group in groups.items()}
        chosen = decide_osd(osd, list(acting.values()))
        written_at_s = self._observe_writes(join_place(layer.pool, layer.namespace), list(groups))
        objects = decide_objects(acting, written_at_s, chosen, count, spares_readers=osd is None)
        place = self._place(chosen)
        return RotPlan(
            osd=chosen,
            host=place.host,
            device=place.device,
            namespace=layer.namespace,
            groups={name: groups[name] for name in objects},
        )

    def describe(self, plan: RotPlan) -> list[str]:
        """What `flip` would do, one line a step."""
        return [
            f"Stop {osd_daemon(plan.osd)} on {plan.host}",
            *(f"Flip a bit of its copy of {name} on {plan.device}" for name in plan.groups),
            f"Start {osd_daemon(plan.osd)} again, and wait until it has caught up",
        ]

    def flip(self, plan: RotPlan) -> list[FlippedBit]:
        """Flip one bit of each object's copy. The OSD runs again whatever happens.

        Should this process be killed meanwhile, `lab fault heal` starts it. Raises GrampusError
        with code `no-place` when no object has its data on the device, or `overwritten` when a
        client would not leave it alone: then the flips are taken back.
        """
        host = self._fleet.lab_host(plan.host)
        self._progress.phase(f"Stop {osd_daemon(plan.osd)}")
        try:
            host.ensure_daemon_absent(osd_daemon(plan.osd))
            self._progress.phase("Flip bits")
            found = [self._flip(host, plan, name) for name in plan.groups]
        finally:
            self._start(host, plan)
        flipped = [bit for bit in found if bit is not None]
        if not flipped:
            raise GrampusError(
                f"osd.{plan.osd} does not store the data of any of these objects separately.",
                "Choose another --osd, or write more to the volume.",
                code="no-place",
            )
        return flipped

    def _flip(self, host: Host, plan: RotPlan, name: str) -> FlippedBit | None:
        tool = ["ceph-objectstore-tool", "--data-path", f"/var/lib/ceph/osd/ceph-{plan.osd}"]
        listed = host.run(
            [*tool, "--pgid", plan.groups[name], "--op", "list", name], timeout_s=_TOOL_TIMEOUT_S
        )
        for line in listed.stdout.splitlines():
            if not line.startswith("["):
                continue
            found = json.loads(line)[1]
            if (found["snapid"], found.get("namespace", "")) != (_HEAD, plan.namespace):
                continue
            dumped = host.run([*tool, line, "dump"], timeout_s=_TOOL_TIMEOUT_S)
            offset_bytes = decide_device_offset_bytes(json.loads(dumped.stdout)["onode"])
            if offset_bytes is not None:
                argv = ["python3", "-c", FLIP_BIT, plan.device, str(offset_bytes)]
                digest = host.run(argv).stdout.strip()
                self._note(host, plan.osd, NotedFlip(offset_bytes=offset_bytes, digest=digest))
                return FlippedBit(name, plan.groups[name], offset_bytes)
        return None

    def take_back(self) -> list[str]:
        """Flip back what spoilt the copies of OSDs that have ended; says what it did.

        One that runs keeps its damage: a scrub finds it, and a repair puts it right.
        """
        said = []
        for host in self._fleet.lab_hosts():
            if host.name not in self._spec.osd_hosts or not self._fleet.is_reachable(host.name):
                continue
            running = {s.name for s in host.observe_daemons() if s.state == "running"}
            listed = host.run(["find", str(osd_directory(host)), "-name", "rot-*.json"])
            for file in listed.stdout.splitlines():
                osd = int(PurePosixPath(file).stem.removeprefix("rot-"))
                if osd_daemon(osd) not in running and self._take_back(host, osd):
                    said.append(f"Flipped the bits of osd.{osd} back, because the OSD had ended.")
        return said

    def _take_back(self, host: Host, osd: int) -> bool:
        reference = osd_reference(self._spec, osd)
        device = find_loop_device_below(host, reference, directory=osd_directory(host))
        notes = self._notes(host, osd)
        if device is None or not notes:
            return False
        for noted in notes:
            place = [device, str(noted.offset_bytes), noted.digest]
            host.run(["python3", "-c", FLIP_BIT, *place])
        host.run(["rm", "-f", str(_notes_file(host, osd))])
        return True

    def _note(self, host: Host, osd: int, flip: NotedFlip) -> None:
        notes = [*self._notes(host, osd), flip]
        host.write_file(_notes_file(host, osd), _NOTES.dump_json(notes).decode())

    @staticmethod
    def _notes(host: Host, osd: int) -> list[NotedFlip]:
        text = host.read_file(_notes_file(host, osd))
        return [] if text is None else _NOTES.validate_json(text)

    def _start(self, host: Host, plan: RotPlan) -> None:
        """Run the OSD again until it has caught up, without the flips if it ends by them."""
        self._progress.phase(f"Start {osd_daemon(plan.osd)}")
        osd = self._require_first(plan.osd, host)
        reference = osd_reference(self._spec, plan.osd)
        found = require_slice_device(SliceDevices(), host, plan.osd, osd.data, reference)
        daemon = osd_spec(
            plan.osd,
            (found,),
            (decide_limit(osd.data, found),),
            host.data_dir,
            cpus=OSD_CPUS,
            thread_cache_mib=THREAD_CACHE_MIB,
        )
        host.ensure_daemon(daemon)
        if self._catches_up(host, plan.osd):
            return
        host.ensure_daemon_absent(daemon.name)
        self._take_back(host, plan.osd)
        host.ensure_daemon(daemon)
        self._catches_up(host, plan.osd)
        raise GrampusError(
            f"osd.{plan.osd} ended when a client overwrote damaged data. Grampus has repaired "
            "all of it.",
            "Try again when the write load is lower, or choose another --osd.",
            code="overwritten",
        )

    def _catches_up(self, host: Host, osd: int) -> bool:
        """Wait until every copy is there again; False when the OSD ended meanwhile."""
        ended = False

        def is_over() -> bool:
            nonlocal ended
            running = {s.name for s in host.observe_daemons() if s.state == "running"}
            ended = osd_daemon(osd) not in running
            return ended or self._has_caught_up()

        wait_until(
            self._clock,
            is_over,
            what=f"osd.{osd} to catch up",
            remedy="`grampus lab fault heal` continues.",
            timeout_s=_UP_TIMEOUT_S,
            interval_s=0.5,
        )
        return not ended

    def _has_caught_up(self) -> bool:
        status = self._cluster.observe_status()
        return (
            status.osds_up == status.osds
            and status.placement_groups == status.placement_groups_clean
        )

    def _observe_writes(self, place: str, names: list[str]) -> dict[str, float]:
        argv = ["python3", "-c", LIST_WRITES, place]
        output = self._cluster.runner.run(argv, stdin=json.dumps(names), timeout_s=120)
        found: dict[str, float] = json.loads(output.stdout)
        return found

    def _place(self, osd: int) -> OsdDevice:
        for place in observe_osd_devices(self._spec, self._fleet):
            if place.daemon == osd_daemon(osd):
                self._require_first(osd, self._fleet.lab_host(place.host))
                return place
        raise NotFoundError(
            f"The OSD {osd} does not run.", "Start it first: `grampus lab fault heal`."
        )

    def _require_first(self, osd: int, host: Host) -> OsdPlan:
        plan = find_first_osd(self._spec, host, osd)
        if plan is None:
            raise RefusedError(
                f"osd.{osd} belongs to an OSD set. Only bits on the lab's first OSDs can be "
                "flipped.",
                "Choose a volume in the pool for databases.",
                code="of-osd-set",
            )
        return plan


def _notes_file(host: Host, osd: int) -> PurePosixPath:
    return host.data_dir / f"osd/rot-{osd}.json"
