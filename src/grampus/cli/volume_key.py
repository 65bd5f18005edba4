"""`grampus volume key`: the master key that the keys of encrypted volumes are sealed with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grampus.cli.app import command, make_noun
from grampus.cli.composition.resealing import volume_resealing
from grampus.cli.composition.session import Session
from grampus.cli.kept_keys import describe_place, export_key, import_key, key_entries
from grampus.cli.options import (
    FORMAT_DEFAULT,
    LAB_DEFAULT,
    DryRunOption,
    FormatOption,
    LabOption,
    in_lab,
)
from grampus.cli.output import make_output
from grampus.cli.volume import volume_app
from grampus.cli.work import work_on_volumes

volume_key_app = make_noun("key", "The master key of encrypted volumes.", under=volume_app)
_MADE_BY = "The first encrypted volume creates one. A site has its own keys: use --site NAME."


@command(volume_key_app, "show", "grampus volume key show")
def volume_key_show(
    lab: LabOption = LAB_DEFAULT, output_format: FormatOption = FORMAT_DEFAULT
) -> None:
    """List the master keys of this home or of a site by id, with their directory. The keys
    themselves are never shown.
    """
    keys = Session(lab).master_keys()
    entries = key_entries(keys)
    make_output(output_format).table(
        {"keys": entries, "directory": str(keys.directory)},
        ["master key", "use", "in"],
        [
            [
                entry["id"],
                "new volumes"
                if entry["current"]
                else "older backups, and volumes with keys sealed by it",
                str(keys.directory),
            ]
            for entry in entries
        ],
        f"There is no master key yet. {_MADE_BY}",
    )


@command(volume_key_app, "export", "grampus volume key export --to /media/safe/volumes.key")
def volume_key_export(
    to: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, with mode 0600.")],
    key: Annotated[
        str | None, typer.Option(metavar="ID", help="The key (default: the key of new volumes).")
    ] = None,
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Write a master key to a file. Without the key, no encrypted volume can be read."""
    found = export_key(Session(lab).master_keys(), to, key, made_by=_MADE_BY)
    make_output(output_format).text(
        {"key": found.id, "file": str(to.absolute())},
        f"The master key {found.id} is in {to.absolute()}. Keep the file safe, and apart from "
        "the cluster: both together give access to every encrypted volume.",
    )


@command(volume_key_app, "rotate", "grampus volume key rotate")
def volume_key_rotate(
    reseal: Annotated[
        bool,
        typer.Option(
            "--reseal",
            metavar="",
            help="Create no new key. Only reseal the keys that a former master key seals.",
        ),
    ] = False,
    lab: LabOption = LAB_DEFAULT,
    dry_run: DryRunOption = False,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Create a new master key, and reseal every volume's key with it, while the volumes are used.

    The former master key is kept, because older backups need it. If the command is interrupted, run
    it again.
    """
    with work_on_volumes(lab, dry_run=dry_run) as (session, _):
        rotated = volume_resealing(session).rotate(makes_key=not reseal)
    sealed, key_id = rotated.sealed, rotated.key.id
    lines = [
        f"{len(sealed.current)} of {sealed.count} encrypted images of the lab are sealed with "
        f"the master key {key_id}, {rotated.resealed} of them by this command. "
        f"{len(sealed.former)} are sealed with a former key.",
        f"Export the key now: `{in_lab('grampus volume key export --to FILE', lab)}`. The former "
        "keys are kept: older backups need them.",
    ]
    if sealed.closed:
        names = ", ".join(f"{image.pool}/{image.name}" for image in sealed.closed)
        lines.append(
            f"These images were not resealed, because their master key is not here: {names}."
        )
    if sealed.foreign:
        lines.append(
            f"{len(sealed.foreign)} images of other labs or homes are sealed with a former "
            "key. For another lab of this home, use `--lab NAME --reseal`."
        )
    document = {
        "key": key_id,
        "resealed": rotated.resealed,
        "current": len(sealed.current),
        "former": len(sealed.former),
        "key_not_here": [f"{image.pool}/{image.name}" for image in sealed.closed],
        "foreign": len(sealed.foreign),
    }
    make_output(output_format).text(document, "\n".join(lines))


@command(volume_key_app, "import", "grampus volume key import /media/safe/volumes.key")
def volume_key_import(
    file: Annotated[Path, typer.Argument(help="The file from `volume key export`.")],
    lab: LabOption = LAB_DEFAULT,
    output_format: FormatOption = FORMAT_DEFAULT,
) -> None:
    """Add a master key to this home or to a site, so that volumes and backups from elsewhere can be
    opened.
    """
    session = Session(lab)
    found = import_key(session.master_keys(), file)
    make_output(output_format).text(
        {"key": found.id}, f"The master key {found.id} is {describe_place(session.keys_home())}."
    )
