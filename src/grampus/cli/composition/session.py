"""The composition root, of what most commands need: volumes and databases."""

from __future__ import annotations

from grampus.ceph.rbd import RbdImages
from grampus.cli.composition.lab import IMAGE_DEFINITIONS, LabSession
from grampus.cli.progress_bar import PlainProgress, TerminalProgress
from grampus.core.installation import find_volumed
from grampus.databases.model import FlavourName
from grampus.databases.service import DatabaseService
from grampus.databases.upgrades.decide_server import choose_version
from grampus.lab.images.cache import HostImages
from grampus.lab.images.definition import load_definitions
from grampus.lab.model import DATABASE_POOL, DEFAULT_LAB, LabSpec
from grampus.sites.model import SITE_RECORD, SiteSpec
from grampus.state.home import Home
from grampus.volumes.service import VolumeService
from grampus.volumes.volume_keys import MasterKeys, master_keys


class LabImages:
    """Host images by flavour for one lab or site; an `ImagePort` of databases."""

    def __init__(
        self,
        images: HostImages,
        spec: LabSpec | SiteSpec,
        progress: TerminalProgress | PlainProgress,
        *,
        hosts_differ: bool = False,
    ) -> None:
        """If `hosts_differ`, not all hosts have the image of the site: a database then names its
        own, so that its server is the same wherever it runs."""
        self._hosts_differ = hosts_differ
        self._images = images
        self._spec = spec
        self._progress = progress

    def image_for(
        self, flavour: FlavourName, version: str | None = None, *, as_defined: bool = False
    ) -> str | None:
        images = self._with_server(flavour)
        name = images[choose_version(flavour, version, list(images))]
        if name == self._spec.image_name and not as_defined and not self._hosts_differ:
            return None
        image_id = self._images.ensure(name, self._progress).id
        return None if image_id == self._spec.image_id and not self._hosts_differ else image_id

    def versions(self, flavour: FlavourName) -> list[str]:
        return list(self._with_server(flavour))

    def own_image(self) -> str:
        return self._spec.image_id

    def _with_server(self, flavour: FlavourName) -> dict[str, str]:
        """Definitions by the version of their server: the hosts' own, else one without Ceph."""
        definitions = load_definitions(IMAGE_DEFINITIONS).values()
        ordered = sorted(
            definitions, key=lambda d: (d.name == self._spec.image_name, not d.runs_hosts)
        )
        return {d.database_version: d.name for d in ordered if flavour in d.flavours}


class LabCluster:
    """The cluster as databases see it; a `ClusterPort`."""

    def __init__(self, volumes: VolumeService, pool: str) -> None:
        self._volumes = volumes
        self._pool = pool

    def volume_pool(self) -> str:
        return self._pool

    def check_room(self, pool: str, size_bytes: int) -> None:
        self._volumes.check_room(pool, size_bytes)


class Session(LabSession):
    """And what it needs of volumes and databases."""

    def volumes(self) -> VolumeService:
        spec, cluster = self.require_place(), self.cluster()
        return VolumeService(
            self.lab_name,
            spec.tag,
            self.home,
            self.store,
            self.runner,
            self.fleet(),
            cluster,
            RbdImages(cluster, self.clock),
            self.clock,
            self.progress,
            volumed=find_volumed(),
        )

    def master_keys(self) -> MasterKeys:
        """The master keys of volumes. Errors as `keys_home`."""
        return master_keys(self.keys_home())

    def keys_home(self) -> Home:
        """Where keys are: this home, or what the site shares with other machines.

        The keys of a home belong to no lab, so the lab may be gone. But in a home that knows a
        site, a mistyped name must not find the keys of the home: it raises NotFoundError.
        """
        self.store  # noqa: B018 - what is shared comes with it
        if self.lab_name != DEFAULT_LAB and self.home_store.all(SITE_RECORD, None, SiteSpec):
            self.require_place()
        return self.home

    def server_images(self) -> LabImages:
        place = self.require_place()
        own = {"", place.image_id}
        differ = any(host.image_id not in own for host in self.site_hosts())
        return LabImages(self.images, place, self.progress, hosts_differ=differ)

    def database_pool(self) -> str:
        """The pool that volumes are created in unless another one is named."""
        place = self.require_place()
        return place.pool if isinstance(place, SiteSpec) else DATABASE_POOL

    def databases(self) -> DatabaseService:
        volumes = self.volumes()
        return DatabaseService(
            lab=self.lab_name,
            home=self.home,
            store=self.store,
            runner=self.runner,
            clock=self.clock,
            fleet=self.fleet(),
            volumes=volumes,
            images=self.server_images(),
            cluster=LabCluster(volumes, self.database_pool()),
            progress=self.progress,
        )
