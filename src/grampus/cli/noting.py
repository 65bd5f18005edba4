"""Whatever a command has changed, noted where a lost state can be rebuilt from."""

from __future__ import annotations

from grampus.cli.composition.lab import LabSession
from grampus.core.errors import GrampusError
from grampus.databases.rebuild.noting import RecordsNoting
from grampus.lab.lab_file import ensure_lab_file


def note_records(session: LabSession) -> None:
    """Note on images, and beside the lab, what changed. A failure is told, and is no failure of
    the command: the next one notes it.
    """
    if session.lab().find_spec() is not None:
        ensure_lab_file(session.home, session.store, session.lab_name)
    elif session.find_site() is None:
        return
    try:
        noting = RecordsNoting(
            session.store,
            session.lab_name,
            session.cluster(),
            session.state_generation(),
            require_controller=session.require_controller,
        )
        noting.ensure_noted()
    except GrampusError as error:
        session.progress.note(
            "The changes could not be recorded on the images. The next command records them: "
            f"{error}"
        )
