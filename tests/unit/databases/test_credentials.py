from __future__ import annotations

import re
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError
from grampus.databases.credentials import CredentialFiles, render_option_file
from grampus.databases.model import FlavourName


def test_secrets_are_made_once_and_for_us_alone(tmp_path: Path) -> None:
    files = CredentialFiles(tmp_path / "secrets")
    made = files.ensure("my-shop")
    files.write_client_files("my-shop", "[client]\n", "PEM")
    assert files.ensure("my-shop") == made == files.load("my-shop")
    assert made.user == "my_shop"
    kept = sorted((tmp_path / "secrets").iterdir())
    assert [file.name for file in kept] == ["my-shop.ca.pem", "my-shop.cnf", "my-shop.json"]
    assert {file.stat().st_mode & 0o777 for file in kept} == {0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_passwords_are_long_different_and_need_no_quoting(tmp_path: Path) -> None:
    made = CredentialFiles(tmp_path).ensure("demo")
    passwords = [
        secret.get_secret_value()
        for secret in (made.password, made.admin_password, made.root_password)
    ]
    assert len(set(passwords)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9]{24,}", password) for password in passwords)
    assert not any(password in repr(made) for password in passwords)


def test_forgetting_is_idempotent_and_leaves_others_alone(tmp_path: Path) -> None:
    files = CredentialFiles(tmp_path)
    files.ensure("demo")
    files.ensure("demo2")
    files.ensure_absent("demo")
    files.ensure_absent("demo")
    assert [file.name for file in tmp_path.iterdir()] == ["demo2.json"]
    with pytest.raises(GrampusError) as caught:
        files.load("demo")
    assert caught.value.code == "secrets-missing"


@pytest.mark.parametrize(
    ("flavour", "mode"), [("mysql", ["loose-ssl-mode=VERIFY_IDENTITY"]), ("mariadb", [])]
)
def test_the_option_file_verifies_the_server(
    tmp_path: Path, flavour: FlavourName, mode: list[str]
) -> None:
    made = CredentialFiles(tmp_path).ensure("demo")
    text = render_option_file(
        made, flavour=flavour, address="10.9.0.10", port=3306, ca_file="/x/ca.pem"
    )
    assert text.splitlines() == [
        "[client]",
        "host=10.9.0.10",
        "port=3306",
        "user=demo",
        f"password={made.password.get_secret_value()}",
        "ssl-ca=/x/ca.pem",
        *mode,
        "[client-mariadb]",
        "ssl-verify-server-cert",
    ]
