"""`grampus db show`: all that there is to know of one database."""

from __future__ import annotations

import contextlib
from importlib import import_module

from grampus.cli.app import command
from grampus.cli.backup_documents import pairs_of_state, state_document
from grampus.cli.binlog_documents import binlogs_document, observe_binlogs, pairs_of_binlogs
from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.live import database_growth
from grampus.cli.composition.names import certificate_rotation, database_events
from grampus.cli.db import (
    NameArgument,
    database_document,
    db_app,
    details_of_due_flatten,
)
from grampus.cli.db_certificate import certificate_document
from grampus.cli.db_growth import file_system_document
from grampus.cli.lineage import details_of_lineage, lineage_document
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption, LabOption
from grampus.cli.output import make_output
from grampus.cli.overview import (
    overview_document,
    pairs_of_condition,
    pairs_of_copies,
    pairs_of_history,
    pairs_of_reading,
    pairs_of_server,
    pairs_of_snapshots,
    pairs_of_volume,
)
from grampus.cli.volume import details_of_asides, losses_document
from grampus.cli.work import work_on_databases
from grampus.core.errors import GrampusError
from grampus.databases.backup.states import BackupStates
from grampus.databases.operating import DatabaseOperations
from grampus.databases.overview import DatabaseOverviews
from grampus.databases.tls.decide_expiry import describe_state


@command(db_app, "show", "grampus db show shop")
def db_show(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Show one database: server, volume, replicas, clones, snapshots, backups and history."""
    with work_on_databases(lab) as (session, databases):
        view = databases.show(name)
        record, spec, operations = view.record, view.record.spec, databases.operations
        live = session.volumes().observe_live(name) if view.volume else None
        asides = session.volumes().observe_asides(name) if view.volume else []
        replicas, events = database_replicas(session), database_events(session)
        seen = DatabaseOverviews(operations, replicas, events).observe(view)
        backed_up = BackupStates(operations).find(name)
        checked_until = operations.records.archive_checks().until.get(name)
        now = session.clock.now()
        room = database_growth(session).show(name).file_system if view.volume else None
        binlogs = observe_binlogs(session, view, seen)
        at_entry = _at_entry(operations, name) if spec.shares_address else []
        certificate = None
        with contextlib.suppress(GrampusError):  # `grampus serve` says why it cannot be read
            certificate = certificate_rotation(session).observe(view.record)
    said = live.model_dump(mode="json") if live is not None else {}
    document = {
        **database_document(view),
        **losses_document(spec.write_path, spec.max_lag_ms),
        **{key: said.get(key) for key in ("journal", "journal_counts", "read_cache")},
        "file_system": file_system_document(room),
        "binary_logs": binlogs_document(view, binlogs),
        "local_asides": [aside.path for aside in asides],
        **lineage_document(view, seen.lineage),
        "flatten_due": record.flatten_due,
        "entry": at_entry,
        "replicas": [replica.record.spec.name for replica in seen.replicas],
        "certificate": certificate_document(certificate),
        "backups": state_document(record, backed_up, now, checked_until=checked_until),
        **overview_document(view, seen, now),
    }
    groups = [
        pairs_of_server(view, pairs_of_condition(view, seen), pairs_of_reading(view, seen))
        | ({"entry": ", ".join(at_entry)} if at_entry else {})
        | ({"certificate": describe_state(certificate)} if certificate else {}),
        pairs_of_volume(view, live, room)
        | pairs_of_binlogs(view, binlogs)
        | details_of_asides(asides)
        | details_of_due_flatten(record),
        pairs_of_copies(view, seen)
        | details_of_lineage(view, seen.lineage)
        | pairs_of_snapshots(view, seen, now),
        pairs_of_state(record, backed_up, now, checked_until=checked_until),
        pairs_of_history(seen),
    ]
    make_output(output_format).groups(document, groups)


def _at_entry(operations: DatabaseOperations, name: str) -> list[str]:
    """Where clients reach the database at the entry of its site."""
    entry = operations.records.find_entry()
    if entry is None:
        return []
    module = import_module("grampus.databases.entries.decide_entry")
    addresses = {host.name: host.address for host in operations.fleet.hosts()}
    places: list[str] = module.decide_places(
        entry, operations.records.entry_ports().get(name), addresses
    )
    return places
