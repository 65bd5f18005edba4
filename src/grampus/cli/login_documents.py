"""How a client logs in, as commands that make a login answer it."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any

import typer

from grampus.databases.model import Endpoint
from grampus.databases.view import explain_address_kind, render_connection_string

ShowPasswordOption = Annotated[
    bool,
    typer.Option(
        "--show-password",
        metavar="",
        help="Print the password in the connection string (default: only the client's option "
        "file has it).",
    ),
]


def login_document(
    endpoint: Endpoint, client_command: str, option_file: PurePath | str, *, show_password: bool
) -> dict[str, Any]:
    """The fields of a JSON answer that say how to log in. Without `show_password`, no secret."""
    return {
        "connection_string": render_connection_string(endpoint, with_password=show_password),
        "address_kind": endpoint.address_kind,
        "client_command": client_command,
        "option_file": str(option_file),
    }


def details_of_login(
    endpoint: Endpoint, client_command: str, *, show_password: bool
) -> dict[str, str]:
    """The same for people: lines of a table of details.

    A floating address is what everybody expects; another one says so.
    """
    explained = {"address kind": explain_address_kind(endpoint.address_kind)}
    kind = explained if endpoint.address_kind == "host" else {}
    return {
        "connection": render_connection_string(endpoint, with_password=show_password),
        **kind,
        "client": client_command,
        **({} if show_password else {"password": "in the option file, or with --show-password"}),
    }
