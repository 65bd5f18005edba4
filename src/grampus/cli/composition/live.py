"""The composition root, of changes of databases while they run."""

from __future__ import annotations

from grampus.ceph.fullness import observe_pool_room
from grampus.cli.composition.session import Session
from grampus.databases.growth.growth import DatabaseGrowth
from grampus.databases.live.live_settings import LiveSettings
from grampus.databases.live.migrating import DatabaseMigrations
from grampus.databases.live.moving import DatabaseMoves
from grampus.databases.live.parameters import DatabaseParameters
from grampus.databases.live.zone_loading import TimeZoneTables
from grampus.databases.upgrades.upgrading import DatabaseUpgrades


def database_moves(session: Session) -> DatabaseMoves:
    return DatabaseMoves(session.databases().operations)


def database_upgrades(session: Session) -> DatabaseUpgrades:
    return DatabaseUpgrades(session.databases().operations, session.server_images())


def database_migrations(session: Session) -> DatabaseMigrations:
    return DatabaseMigrations(session.databases().operations)


def live_settings(session: Session) -> LiveSettings:
    return LiveSettings(session.databases().operations)


def database_parameters(session: Session) -> DatabaseParameters:
    return DatabaseParameters(session.databases().operations)


def time_zone_tables(session: Session) -> TimeZoneTables:
    return TimeZoneTables(session.databases().operations)


def database_growth(session: Session) -> DatabaseGrowth:
    cluster = session.cluster()
    return DatabaseGrowth(
        session.databases().operations, lambda pool: observe_pool_room(cluster, pool)
    )
