"""`grampus db certificate`: the certificates that a database's server shows its clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grampus.cli.app import command, make_noun
from grampus.cli.composition.names import certificate_rotation
from grampus.cli.db import NameArgument, db_app
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
)
from grampus.cli.output import make_output
from grampus.cli.work import work_on_databases
from grampus.databases.tls.decide_expiry import CertificateState

certificate_app = make_noun(
    "certificate", "The certificates that a database's server shows its clients.", under=db_app
)


@command(certificate_app, "rotate", "grampus db certificate rotate shop")
def certificate_rotate(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create new certificates from a new authority, without a stop and without refused clients.

    The server shows the former certificate until `db certificate retire`.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        rotation = certificate_rotation(session)
        state = rotation.rotate(name)
        file = rotation.authorities_file(name)
    make_output(output_format).text(
        _document(name, state, file),
        f"New certificates of '{name}' are ready. {file} has both authorities: give the file "
        f"to the clients, then run `grampus db certificate retire {name}`.",
    )


@command(certificate_app, "retire", "grampus db certificate retire shop")
def certificate_retire(
    name: NameArgument,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Switch the server to its new certificate, and remove the former authority.

    Open sessions continue. A client that trusts only the former authority is refused from then on.
    """
    with work_on_databases(lab, dry_run=dry_run) as (session, _):
        rotation = certificate_rotation(session)
        state = rotation.retire(name)
        file = rotation.authorities_file(name)
    make_output(output_format).text(
        _document(name, state, file),
        f"The server of '{name}' shows its new certificate. {file} has only the new authority.",
    )


def _document(name: str, state: CertificateState | None, file: Path) -> dict[str, Any]:
    return {"name": name, "ca_file": str(file), "certificate": certificate_document(state)}


def certificate_document(state: CertificateState | None) -> dict[str, Any] | None:
    """The certificate that a server shows, for programs; None: nobody can look at it."""
    if state is None:
        return None
    return {"expires_at": state.expires_at.isoformat(), "rotated": state.is_rotated}
