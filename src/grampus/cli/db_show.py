"""`grampus db show`: all that there is to know of one database."""

from __future__ import annotations

from grampus.cli.app import command
from grampus.cli.backup_documents import pairs_of_state, state_document
from grampus.cli.composition.copies import database_replicas
from grampus.cli.composition.live import database_growth
from grampus.cli.db import (
    NameArgument,
    database_document,
    db_app,
    details_of_due_flatten,
    file_system_document,
    pairs_of_database,
)
from grampus.cli.lineage import details_of_lineage, lineage_document, observe_lineage
from grampus.cli.options import FORMAT_DEFAULT, LAB_DEFAULT, FormatOption, LabOption
from grampus.cli.output import make_output
from grampus.cli.volume import details_of_asides, losses_document
from grampus.cli.work import work_on_databases
from grampus.databases.backup.states import BackupStates


@command(db_app, "show", "grampus db show shop")
def db_show(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """One database: server, limits, volume, and what its write path may lose."""
    with work_on_databases(lab) as (session, databases):
        view = databases.show(name)
        spec = view.record.spec
        live = session.volumes().observe_live(name) if view.volume else None
        asides = session.volumes().observe_asides(name) if view.volume else []
        lineage = observe_lineage(session, view)
        followers = database_replicas(session).names(name)
        backed_up = BackupStates(databases.operations).find(name)
        now = session.clock.now()
        room = database_growth(session).show(name).file_system if view.volume else None
    said = live.model_dump(mode="json") if live is not None else {}
    document = {
        **database_document(view),
        **losses_document(spec.write_path, spec.max_lag_ms),
        **{key: said.get(key) for key in ("journal", "journal_counts", "read_cache")},
        "file_system": file_system_document(room),
        "local_asides": [aside.path for aside in asides],
        **lineage_document(view, lineage),
        "flatten_due": view.record.flatten_due,
        "replicas": followers,
        "backups": state_document(view.record, backed_up, now),
    }
    pairs = pairs_of_database(view, live, room) | details_of_asides(asides)
    pairs |= {"replicas": ", ".join(followers)} if followers else {}
    pairs |= details_of_lineage(view, lineage) | details_of_due_flatten(view.record)
    pairs |= pairs_of_state(view.record, backed_up, now)
    make_output(output_format).details(document, pairs)
