from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.main import get_command

import grampus.cli
from grampus.cli.login_documents import details_of_login, login_document
from grampus.cli.main import app
from grampus.databases.model import AddressKind, Endpoint

CLI = Path(grampus.cli.__file__).parent

ENDPOINT = Endpoint(
    address="10.9.0.10",
    port=3306,
    user="shop",
    password=SecretStr("s3cret"),
    daemon="mysqld-shop",
    host="h1",
    option_file="/data/databases/shop/client.cnf",
)
CLIENT = "mysql --defaults-extra-file=/home/secrets/shop.cnf"


@pytest.mark.parametrize("show_password", [False, True])
def test_an_answer_holds_the_password_only_when_it_was_asked_for(show_password: bool) -> None:
    document = login_document(ENDPOINT, CLIENT, ENDPOINT.option_file, show_password=show_password)
    shown = details_of_login(ENDPOINT, CLIENT, show_password=show_password)
    assert ("s3cret" in json.dumps(document)) is show_password
    assert ("s3cret" in json.dumps(shown)) is show_password
    assert ("password" in shown) is not show_password  # where it is instead
    assert document["client_command"] == shown["client"] == CLIENT
    assert document["option_file"] == "/data/databases/shop/client.cnf"


@pytest.mark.parametrize(
    ("kind", "shown_kind"),
    [("floating", None), ("host", "host (changes when the database moves)")],
)
def test_the_kind_of_an_address_is_in_each_document(
    kind: AddressKind, shown_kind: str | None
) -> None:
    endpoint = ENDPOINT.model_copy(update={"address_kind": kind})
    document = login_document(endpoint, CLIENT, endpoint.option_file, show_password=False)
    shown = details_of_login(endpoint, CLIENT, show_password=False)
    assert document["address_kind"] == kind
    assert shown.get("address kind") == shown_kind


def test_no_other_module_of_the_command_line_reads_a_secret() -> None:
    modules = {file.name: file.read_text() for file in CLI.rglob("*.py")}
    assert not [name for name, text in modules.items() if "get_secret_value" in text]
    users = [name for name, text in modules.items() if "render_connection_string(" in text]
    assert users == ["login_documents.py"]


def test_no_command_shows_a_password_unless_asked() -> None:
    databases: Any = get_command(app).commands["db"]  # type: ignore[attr-defined]
    asking = {
        f"{noun} {verb}": option
        for noun, group in (("db", databases), ("db user", databases.commands["user"]))
        for verb, command in group.commands.items()
        for option in command.params
        if option.name == "show_password"
    }
    assert {"db create", "db clone", "db user add", "db user passwd"} <= set(asking)
    assert not any(option.default for option in asking.values())
