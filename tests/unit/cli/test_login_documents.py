from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from grampus.cli.login_documents import details_of_login, login_document
from grampus.databases.model import Endpoint

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
