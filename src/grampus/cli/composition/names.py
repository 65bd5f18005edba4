"""The composition root, of who uses databases, what they are called, what became of them."""

from __future__ import annotations

from grampus.cli.composition.session import Session
from grampus.databases.names.database_trash import DatabaseTrash
from grampus.databases.names.events import DatabaseEvents
from grampus.databases.names.histories import Histories
from grampus.databases.names.naming import DatabaseNames
from grampus.databases.records import DatabaseRecords
from grampus.databases.tls.certificate_rotation import CertificateRotation
from grampus.databases.users.roles import DatabaseRoles
from grampus.databases.users.rotation import DatabaseRotation
from grampus.databases.users.users import DatabaseUsers
from grampus.state.history import OperationHistory
from grampus.state.retention import OperationRetention
from grampus.state.warnings import WarningHistory
from grampus.volumes.records import VolumeRecords


def database_users(session: Session) -> DatabaseUsers:
    return DatabaseUsers(session.databases().operations)


def database_roles(session: Session) -> DatabaseRoles:
    return DatabaseRoles(session.databases().operations)


def database_rotation(session: Session) -> DatabaseRotation:
    return DatabaseRotation(session.databases().operations)


def certificate_rotation(session: Session) -> CertificateRotation:
    return CertificateRotation(session.databases().operations)


def database_names(session: Session) -> DatabaseNames:
    return DatabaseNames(session.databases().operations)


def database_events(session: Session) -> DatabaseEvents:
    history = OperationHistory(session.store, session.lab_name)
    records = session.databases().operations.records
    return DatabaseEvents(records, history, warning_history(session))


def operation_retention(session: Session) -> OperationRetention:
    return OperationRetention(session.store, session.lab_name, session.clock)


def histories(session: Session) -> Histories:
    return Histories(
        DatabaseRecords(session.store, session.lab_name),
        OperationHistory(session.store, session.lab_name),
        operation_retention(session),
        volumes=VolumeRecords(session.store, session.lab_name).names(),
    )


def warning_history(session: Session) -> WarningHistory:
    return WarningHistory(session.store, session.lab_name, session.clock)


def database_trash(session: Session) -> DatabaseTrash:
    return DatabaseTrash(session.databases().operations)
