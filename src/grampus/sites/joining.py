"""A further machine joins a site: with a file of one that works on it, it sees and does the same.

Failure and recovery: joining can be repeated. The site's record is written last; an interrupted
command leaves files that the next one writes again.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from grampus.ceph.cluster import CephCluster
from grampus.core.clock import Clock
from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import Progress
from grampus.sites.access_files import write_access
from grampus.sites.adoption import Connect, SiteImages
from grampus.sites.cluster_access import CONF_FILE, keyring_name
from grampus.sites.cluster_checks import observe_fsid
from grampus.sites.model import SITE_RECORD, SiteSpec, site_directory
from grampus.sites.shared_state import OpenLog, join_state
from grampus.sites.site_key import JoinFile, SiteKey, require_site_key, write_site_key
from grampus.sites.site_records import SiteRecords
from grampus.state.home import Home


class Joining:
    """Joins sites in one home. `is_lab` says whether a lab has a name."""

    def __init__(
        self,
        home: Home,
        records: SiteRecords,
        images: SiteImages,
        clock: Clock,
        progress: Progress,
        *,
        is_lab: Callable[[str], bool],
        connect: Connect,
        open_log: OpenLog,
    ) -> None:
        self._open_log = open_log
        self._home = home
        self._records = records
        self._images = images
        self._clock = clock
        self._progress = progress
        self._is_lab = is_lab
        self._connect = connect

    def describe(self, spec: SiteSpec) -> JoinFile:
        """What another machine needs. Raises GrampusError with code `no-site-key`."""
        directory = site_directory(self._home, spec.name)
        return JoinFile(
            site=spec.name,
            fsid=spec.fsid,
            user=spec.user,
            pool=spec.pool,
            image=spec.image_name,
            conf=(directory / CONF_FILE).read_text(),
            keyring=(directory / keyring_name(spec.user)).read_text(),
            key=require_site_key(directory, spec.name).render(),
        )

    def join(self, file: JoinFile) -> SiteSpec:
        """Keep the files here and open the state of the site.

        Raises RefusedError with code `name-taken`, `site-exists` or `site-not-adopted`, and what
        the cluster says.
        """
        name = file.site
        self._require_free(file)
        image = self._images.ensure(file.image, self._progress)
        directory = site_directory(self._home, name)
        self._progress.phase("Connect to the cluster")
        with tempfile.TemporaryDirectory(prefix="grampus-site-") as scratch:
            conf, keyring = Path(scratch) / "conf", Path(scratch) / "keyring"
            conf.write_text(file.conf)
            keyring.write_text(file.keyring)
            write_access(directory, conf, keyring, file.user)
        write_site_key(directory, SiteKey.parse(file.key))
        runner = self._connect(image.root, directory, file.user)
        with contextlib.closing(runner):
            fsid = observe_fsid(CephCluster(runner, image_pools=(file.pool,)), file.user)
            if fsid != file.fsid:
                raise RefusedError(
                    f"The cluster in the file is {file.fsid}, and the one that answers is {fsid}.",
                    f"Write a new file with `grampus site key {name} --to FILE`.",
                    code="site-exists",
                )
            self._progress.phase("Read the state of the site")
            log = self._open_log(name, file.pool, lambda: runner)
            with (
                contextlib.closing(log),
                contextlib.closing(join_state(self._home, name, log, self._clock)) as state,
            ):
                spec = state.store.get(SITE_RECORD, name, name, SiteSpec)
        if spec is None:
            raise GrampusError(
                f"The state of the site '{name}' is not complete.",
                f"Adopt the site again on the machine that adopted it (`grampus site adopt "
                f"{name}`).",
                code="site-incomplete",
            )
        self._records.put(spec)
        return spec

    def _require_free(self, file: JoinFile) -> None:
        if self._is_lab(file.site):
            raise RefusedError(
                f"A lab is named '{file.site}'.",
                "Remove the lab, or use another GRAMPUS_HOME.",
                code="name-taken",
            )
        known = self._records.find(file.site)
        if known is not None and known.fsid != file.fsid:
            raise RefusedError(
                f"The site '{file.site}' is the cluster {known.fsid}, not {file.fsid}.",
                f"Forget it first (`grampus site forget {file.site}`), or use another "
                "GRAMPUS_HOME.",
                code="site-exists",
            )
