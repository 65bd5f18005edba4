"""A site on a cluster of another release that was deployed with Ceph's own programs.

It has one MON, its copies are in racks, its configuration file is as short as a manual's, and all
that Grampus gets of it is that file and a key of few rights. Nobody logs in as root to one of the
hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grampus.core.clock import SystemClock
from grampus.core.installation import INSTALLATION
from grampus.core.progress import SilentProgress
from grampus.lab.images.cache import HostImages
from grampus.state.home import Home
from tests.system.command_line import CommandLine
from tests.system.site_machines import NAME, Site, own_site
from tests.system.stock_cluster.cluster import StockCluster
from tests.system.systemd_host_disk import OPERATOR

pytestmark = [pytest.mark.exhaustive]

SMALL = ("--size", "1G", "--memory", "320M", "--cpus", "0.5")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site with two hosts and a database."""
    line = CommandLine("site-stock")
    directory = tmp_path_factory.mktemp("stock")
    images = HostImages(Home(line.home), INSTALLATION.data / "images", SystemClock())
    root = images.ensure("trixie", SilentProgress()).root
    (directory / "files").mkdir()
    with (
        StockCluster(directory / "cluster", root) as cluster,
        own_site(
            *(line, cluster, directory / "files", directory / "machines", ("s1", "s2")),
            users={"s2": OPERATOR},
        ) as site,
    ):
        line.ok("db", "create", NAME, *SMALL, "--host", "s1", timeout_s=600)
        line.ok("db", "connect", NAME, "-e", "CREATE DATABASE d")
        line.ok("db", "connect", NAME, "-e", "CREATE TABLE d.t (id SERIAL PRIMARY KEY)")
        yield site


def test_the_cluster_is_judged_as_it_is(site: Site) -> None:
    assert "ceph version 18." in site.cluster.ok("ceph", "version")
    checks = {one["name"]: one for one in site.line.json("site", "check", site.line.lab)["checks"]}
    assert {one["verdict"] for one in checks.values()} <= {"ok", "warning"}
    assert "18." in checks["release"]["sentence"]
    assert "rack" in checks["failure domain"]["sentence"]


def test_a_database_lives_there(site: Site, tmp_path: Path) -> None:
    site.insert()
    line, backups = site.line, str(tmp_path / "backups")
    line.ok("db", "backup", "create", NAME, "--to", backups)
    site.insert()
    # A moment is told in whole seconds: nothing is to be committed within that one.
    line.sql(NAME, "SELECT SLEEP(2)")
    moment = line.sql(NAME, "SELECT UTC_TIMESTAMP(), SLEEP(2)")[0][0].replace(" ", "T")
    line.ok("db", "connect", NAME, "-e", "CREATE TABLE d.later (id SERIAL PRIMARY KEY)")
    line.ok("db", "backup", "archive", NAME, "--to", backups)
    line.ok("db", "resize", NAME, "--size", "2G")
    line.ok("db", "snapshot", "create", NAME, "first")
    line.ok("db", "clone", NAME, "copy", "--snapshot", "first", "--host", "s2", "--memory", "320M")
    line.ok("db", "move", NAME, "--host", "s2")
    line.ok("db", "restore", "again", "--from", backups, "--time", moment, "--host", "s1")
    rows = site.rows()
    assert rows == 2
    for name in ("copy", "again"):
        assert int(line.sql(name, "SELECT COUNT(*) FROM d.t")[0][0]) == rows, name
    assert line.sql("again", "SHOW TABLES IN d LIKE 'later'") == []
    for name in ("copy", "again"):
        line.ok("db", "delete", name, "--now", "--yes")
    line.ok("db", "verify", NAME)


def test_a_database_of_the_other_flavour_lives_there(site: Site) -> None:
    """Its server is in another image, which the host gets."""
    line = site.line
    line.ok("db", "create", "maria", "--flavour", "mariadb", *SMALL, "--host", "s2", timeout_s=600)
    line.ok("db", "connect", "maria", "-e", "CREATE DATABASE d")
    line.ok("db", "clone", "maria", "maria-copy", "--host", "s2", "--memory", "320M")
    for name in ("maria-copy", "maria"):
        assert line.sql(name, "SHOW DATABASES LIKE 'd'") == [["d"]], name
        line.ok("db", "delete", name, "--now", "--yes")
