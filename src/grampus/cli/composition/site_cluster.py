"""The composition root, of a site's cluster: what each command on a site begins with.

Apart from the hosts, whose modules a command about the state alone does without.
"""

from __future__ import annotations

from pathlib import Path

from grampus.core.errors import GrampusError
from grampus.core.progress import Progress
from grampus.lab.images.cache import HostImages
from grampus.sites.cluster_access import SiteClusterRunner
from grampus.sites.model import SiteSpec, site_directory
from grampus.state.home import Home


def require_image_root(home: Home, images: HostImages, site: SiteSpec, progress: Progress) -> Path:
    """The root of the site's host image on this machine, built if need be.

    Raises GrampusError with code `other-image` when the definition has changed since.
    """
    root = home.images_dir / site.image_id / "root"
    if not root.is_dir():
        built = images.ensure(site.image_name, progress)
        if built.id != site.image_id:
            raise GrampusError(
                f"The site '{site.name}' uses the host image {site.image_id}, which is not here; "
                f"the present one is {built.id}.",
                "Copy the image's directory from the machine that adopted the site.",
                code="other-image",
            )
    return root


def site_runner(
    home: Home, images: HostImages, site: SiteSpec, progress: Progress
) -> SiteClusterRunner:
    """Ceph's commands for the site's cluster, run on this machine."""
    root = require_image_root(home, images, site, progress)
    return SiteClusterRunner(root, site_directory(home, site.name), site.user)
