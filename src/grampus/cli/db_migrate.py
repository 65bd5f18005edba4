"""`grampus db migrate`: a database in another pool."""

from __future__ import annotations

from grampus.cli.app import command
from grampus.cli.composition.live import database_migrations
from grampus.cli.db import NameArgument, database_document, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.volume_migrate import AbortOption, PoolOption, require_one
from grampus.cli.work import work_on_databases


@command(db_app, "migrate", "grampus db migrate shop --pool archive", is_long=True)
def db_migrate(
    name: NameArgument,
    pool: PoolOption = None,
    abort: AbortOption = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Move a database to another pool while it is used. No query fails; some wait for seconds."""
    require_one(pool, abort=abort)
    # What was interrupted would be finished otherwise, and that may be what is to be aborted.
    with work_on_databases(lab, settles=not abort, dry_run=dry_run) as (session, databases):
        migrations = database_migrations(session)
        if pool is None:
            record = migrations.abort(name)
            sentence = f"The database '{name}' is back in the pool '{record.spec.pool}'."
        else:
            former = databases.get(name).spec.pool
            migrations.migrate(name, pool)
            before = "already" if former == pool else f"now; it was in '{former}'"
            sentence = f"The database '{name}' is in the pool '{pool}' {before}."
        view = databases.show(name)
    make_output(output_format).text(database_document(view), sentence)
