"""A database that is there, made at the ports: how it came about is no matter here."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from grampus.databases.backup.places import TargetPlace
from grampus.databases.layout import server_daemon_name
from grampus.databases.model import DatabaseRecord
from grampus.hosts.port import DaemonSpec
from grampus.volumes.model import VolumeSpec
from tests.fakes.hosts import FakeFile
from tests.fakes.mysql_host import MysqlDaemon
from tests.fakes.specs import database_spec
from tests.unit.databases.world import World

ROWS = PurePosixPath("data/shop.ibd")
ACCOUNTS = PurePosixPath("data/accounts")


def put_database(world: World, name: str = "demo") -> DatabaseRecord:
    """A running database with a volume of its own on h1."""
    operations = world.service().operations
    spec = database_spec(name=name, memory_bytes=2**29, cpus=0.5)
    record = DatabaseRecord(
        spec=spec,
        user=name,
        server_version="9.7.4",
        buffer_pool_bytes=2**27,
        created_at=world.clock.now(),
    )
    operations.records.put(record)
    operations.credentials.ensure(name)
    world.volumes.ensure_created(
        VolumeSpec(name=name, pool=spec.pool, image=f"db-{name}", size_bytes=spec.size_bytes)
    )
    world.volumes.ensure_attached(name, spec.host)
    daemon = server_daemon_name(name)
    world.hosts["h1"].daemons[daemon] = MysqlDaemon(DaemonSpec(daemon, ("mysqld",)), "running")
    accounts = [
        f"CREATE USER '{user}'@'{host}' IDENTIFIED BY 'former';"
        for user, host in ((name, "%"), ("grampus.admin", "localhost"))
    ]
    write(world, ACCOUNTS, "\n".join(accounts), name)
    write(world, PurePosixPath("initialised"), "1", name)
    return record


def write_rows(world: World, rows: str, name: str = "demo") -> None:
    """As the server would, while it runs."""
    write(world, ROWS, rows, name)


def write(world: World, path: PurePosixPath, content: str, name: str) -> None:
    attachment = world.volumes.get(name).attachment
    assert attachment is not None
    mount = PurePosixPath(attachment.mount_path)
    world.hosts[attachment.host].files[mount / path] = FakeFile(content)


def place(directory: Path) -> TargetPlace:
    """A directory as a place of backups."""
    return TargetPlace(url=str(directory))
