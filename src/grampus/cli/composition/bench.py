"""The composition root, of benchmarks: what they see of a lab or site."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath

from grampus.bench.measured_ports import IoDevice
from grampus.cli.composition.lab import LabSession
from grampus.cli.composition.session import Session
from grampus.hosts.media import block_limit, disk_model
from grampus.lab.emulated_disks import disk_socket
from grampus.lab.model import LabSpec
from grampus.lab.osd_devices import observe_osd_devices
from grampus.lab.osd_plans import DeviceSlice, decide_first_osds, decide_set_osds
from grampus.lab.osd_set import find_osd_sets
from grampus.lab.osds import osd_directory
from grampus.sites.model import SiteSpec
from grampus.state.runs import Setting
from grampus.volumes.drivers.volumed import control_socket
from grampus.volumes.model import Attachment
from grampus.volumes.write_paths import describe_write_path


class LabDevices:
    """Block devices of a lab's OSDs and volumes; a `DevicesPort` of bench.

    Of a site, those of its volumes alone: its OSDs are not on our hosts.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def io_devices(self) -> list[IoDevice]:
        is_lab = self._session.find_site() is None
        osds = self._osds(self._session.require_lab()) if is_lab else []
        volumes = [
            IoDevice(
                "volume",
                record.spec.name,
                attachment.host,
                attachment.device,
                control_socket=_control_socket(attachment),
                log_device=attachment.log_device,
            )
            for record in self._session.volumes().all()
            if (attachment := record.attachment) is not None
        ]
        return osds + volumes

    def _osds(self, spec: LabSpec) -> list[IoDevice]:
        slices = self._slices(spec)
        return [
            IoDevice(
                *("daemon", osd.daemon, osd.host, osd.device),
                block_limit(part.media, osd.device, shared_by=part.shared_by),
                control_socket=self._disk_socket(osd.host, part),
            )
            for osd in observe_osd_devices(spec, self._session.lab_fleet())
            if (part := slices.get(osd.daemon)) is not None
        ]

    def _disk_socket(self, host: str, part: DeviceSlice) -> str | None:
        if disk_model(part.media) is None:
            return None
        found = self._session.lab_fleet().host(host)
        return str(disk_socket(found, osd_directory(found) / part.file))

    def _slices(self, spec: LabSpec) -> dict[str, DeviceSlice]:
        """What each OSD's data stands on, by its daemon: those of sets have media of their own."""
        plans = decide_first_osds(spec)
        for osd_set in find_osd_sets(self._session.store, spec.name):
            plans += decide_set_osds(spec, osd_set)
        data = {plan.uuid: plan.data for plan in plans}
        found = self._session.cluster().query("osd", "dump")["osds"]
        return {f"osd-{osd['osd']}": data[osd["uuid"]] for osd in found if osd["uuid"] in data}


def _control_socket(attachment: Attachment) -> str | None:
    if attachment.driver != "volumed" or attachment.export_path is None:
        return None
    return str(control_socket(PurePosixPath(attachment.export_path)))


class DatabaseFacts:
    """What a run records of the lab or site of a database; a `FactsPort` of bench."""

    def __init__(self, session: Session, database: str) -> None:
        self._session = session
        self._database = database

    def facts(self) -> list[Setting]:
        record = self._session.volumes().get(self._database)
        attachment = record.attachment
        site, host = self._session.find_site(), attachment.host if attachment else None
        describe = describe_lab if site is None else partial(_describe_site, site, host)
        return describe(
            self._session,
            record.spec.pool,
            {
                "image": f"{record.spec.pool}/{record.spec.image}",
                "image size (bytes)": str(record.spec.size_bytes),
                "file system": record.spec.filesystem,
                "write path": describe_write_path(record.spec.write_path, record.spec.max_lag_ms),
                "driver": attachment.driver if attachment else "detached",
                "driver reason": attachment.driver_reason if attachment else "",
                "transport": (attachment.transport or "") if attachment else "",
            },
        )


def describe_lab(session: LabSession, pool_name: str, further: Mapping[str, str]) -> list[Setting]:
    """What a run records of the lab and one of its pools, with `further` settings of its own."""
    spec, cluster = session.require_lab(), session.cluster()
    pool = cluster.observe_pool(pool_name)
    pairs = {
        "version": cluster.observe_versions(),
        "hosts": f"{spec.host_count} (network namespaces of one machine)",
        "OSDs": f"{spec.osd_count}, BlueStore on loop devices over sparse files",
        "OSD size (bytes)": str(spec.osd_size_bytes),
        "media": spec.media,
        "pool": pool_name,
        "copies": f"{pool.copies}, min_size {spec.min_size}",
        **further,
        "host image": spec.image_id,
    }
    return _of_ceph(pairs)


def _describe_site(
    site: SiteSpec,
    host: str | None,
    session: LabSession,
    pool_name: str,
    further: Mapping[str, str],
) -> list[Setting]:
    hosts = {one.name: one for one in session.site_hosts()}
    cluster = session.cluster()
    pool, osds = cluster.observe_pool(pool_name), cluster.query("osd", "stat")
    pairs = {
        "version": cluster.observe_versions(),
        "hosts": f"{len(hosts)} (reached by SSH)",
        "OSDs": f"{osds['num_up_osds']} of {osds['num_osds']} up",
        "pool": pool_name,
        "copies": str(pool.copies),
        **further,
        "host image": site.image_of(hosts[host]) if host in hosts else site.image_id,
    }
    return _of_ceph(pairs)


def _of_ceph(pairs: Mapping[str, str]) -> list[Setting]:
    return [Setting(group="Ceph", name=name, value=value) for name, value in pairs.items()]
