"""Which user a server runs as, over its life: its files on disk are the same user's throughout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grampus.databases.layout import MYSQL_UID, decide_daemon_uid
from grampus.databases.model import FlavourName

from .world import World


def _uid(world: World) -> int | None:
    return world.service().show("demo").server_uid


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_a_server_of_an_earlier_release_gets_its_own_user_at_its_next_start(
    world: World, flavour: FlavourName
) -> None:
    own = decide_daemon_uid(world.create(flavour=flavour).endpoint.address)
    assert _uid(world) == own
    daemon = world.hosts["h1"].daemons["mysqld-demo"]
    daemon.spec = replace(daemon.spec, uid=MYSQL_UID, gid=MYSQL_UID)
    assert _uid(world) == MYSQL_UID, "what runs, not what is planned"
    service = world.service()
    service.start("demo")
    assert _uid(world) == MYSQL_UID, "a server that runs is left alone"
    service.stop("demo")
    assert _uid(world) is None
    service.start("demo")
    assert _uid(world) == own


def test_nothing_on_a_host_belongs_to_the_user_of_a_server(world: World) -> None:
    own = decide_daemon_uid(world.create().endpoint.address)
    host = world.hosts["h1"]
    assert own not in {file.uid for file in host.below(host.data_dir).values()}
    assert not [argv for argv in host.commands if str(own) in " ".join(argv)]
