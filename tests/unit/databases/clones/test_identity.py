"""INV: a copy of a data directory lets nobody in with a password of what it was copied from."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest
from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.databases.accounts import render_accounts_sql, render_golden_accounts_sql
from grampus.databases.clones.identity import (
    begin_serving_as_new,
    finish_serving_as_new,
    render_identity_sql,
)
from grampus.databases.credentials import CredentialFiles, Credentials
from grampus.databases.instance import ensure_files
from grampus.databases.layout import InstancePlan
from grampus.databases.model import FlavourName
from tests.fakes.clock import FakeClock
from tests.fakes.hosts import FakeFile
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_accounts import accounts_of
from tests.fakes.mysql_host import MysqlHost
from tests.unit.databases.test_layout import plan

FLAVOURS: list[FlavourName] = ["mysql", "mariadb"]
OLD = render_accounts_sql(
    "mysql", user="demo", password="old-u", admin_password="old-a", root_password="old-r"
)
NEW = Credentials(
    user="demo",
    password=SecretStr("newU"),
    admin_password=SecretStr("newA"),
    root_password=SecretStr("newR"),
)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("makes_accounts", [True, False])
def test_one_statement_a_line_as_init_file_wants_it(
    flavour: FlavourName, makes_accounts: bool
) -> None:
    for line in render_identity_sql(flavour, NEW, makes_accounts=makes_accounts).splitlines():
        assert line.endswith(";")
        assert line.count(";") == 1


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_account_of_grampus_gets_a_new_password_and_no_other_one(
    flavour: FlavourName,
) -> None:
    mine = "CREATE USER 'dba'@'%' IDENTIFIED BY 'dbas';"
    known = accounts_of(f"{OLD}\n{mine}")
    sql = render_identity_sql(flavour, NEW, makes_accounts=False)
    after = accounts_of(f"{OLD}\n{mine}\n{sql}")
    assert after.keys() == known.keys()
    assert {user: account.password for user, account in after.items()} == {
        "demo": "newU",
        "grampus.admin": "newA",
        "dba": "dbas",
    }
    assert "GRANT" not in sql, "what the DBA took away from the user would come back"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_golden_data_directory_gets_its_accounts_with_their_rights(flavour: FlavourName) -> None:
    golden = render_golden_accounts_sql(flavour, root_password="nobodys")
    assert accounts_of(golden) == {}, "somebody could log in"
    assert "ACCOUNT LOCK" in golden
    sql = render_identity_sql(flavour, NEW, makes_accounts=True)
    after = accounts_of(f"{golden}\n{sql}\n{sql}")  # every statement may be repeated
    assert {user: account.password for user, account in after.items()} == {
        "root": "newR",
        "demo": "newU",
        "grampus.admin": "newA",
    }
    assert re.search(r"GRANT ALL PRIVILEGES ON \*\.\* TO 'grampus.admin'@'localhost'", sql)
    assert re.search(r"GRANT SELECT.* TO 'demo'@'%' WITH GRANT OPTION;", sql)


def test_a_second_password_of_a_rotation_does_not_come_along() -> None:
    rotating = "ALTER USER 'demo'@'%' IDENTIFIED BY 'old2' RETAIN CURRENT PASSWORD;"
    sql = render_identity_sql("mysql", NEW, makes_accounts=False)
    demo = accounts_of(f"{OLD}\n{rotating}\n{sql}")["demo"]
    assert (demo.password, demo.former) == ("newU", None)


class Copy:
    """A data directory as it was copied, on a host with the instance's files."""

    def __init__(self, directory: Path, flavour: FlavourName = "mysql") -> None:
        self.host = MysqlHost("h1", Fuse())
        self.plan: InstancePlan = plan(flavour)
        self.credentials = CredentialFiles(directory).ensure("demo")
        ensure_files(self.host, self.plan, self.credentials)
        self.host.ensure_address(self.plan.address)
        data = self.plan.volume / "data"
        self.host.files[data / "accounts"] = FakeFile(OLD)
        self.host.files[self.plan.marker] = FakeFile("1")
        for name in ("auto.cnf", "private_key.pem", "ibdata1"):
            self.host.files[data / name] = FakeFile("of the source")

    def begin(self) -> None:
        begin_serving_as_new(
            self.host, self.plan, self.credentials, FakeClock(), makes_accounts=False
        )

    def finish(self) -> str:
        return finish_serving_as_new(
            self.host, self.plan, self.credentials.admin_password, FakeClock()
        )

    def serve(self) -> None:
        self.begin()
        self.finish()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_it_serves_with_new_passwords_as_another_server(
    tmp_path: Path, flavour: FlavourName
) -> None:
    copy = Copy(tmp_path, flavour)
    copy.begin()
    assert copy.finish() == "9.7.4"
    left = {path.name for path in copy.host.below(copy.plan.volume / "data")}
    # MariaDB's is started closed before, and then gets what an older release did not load.
    assert left - {"zones"} == {"accounts", "ibdata1"}
    assert copy.host.read_file(copy.plan.accounts_file) is None
    assert list(copy.host.daemons) == [copy.plan.daemon]
    copy.begin()  # nothing happens to one that runs
    assert copy.finish() == "9.7.4"


def test_the_passwords_are_in_a_file_of_mysql_alone_and_on_no_command_line(
    tmp_path: Path,
) -> None:
    copy = Copy(tmp_path)
    copy.begin()
    file = copy.host.files[copy.plan.accounts_file]
    assert (file.mode, file.uid) == (0o600, 64050)
    secret = copy.credentials.password.get_secret_value()
    assert secret in file.content
    words = [word for argv in copy.host.commands for word in argv]
    words += copy.host.daemons[copy.plan.daemon].spec.argv
    assert not any(secret in word for word in words)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("failing", ["ALTER USER 'demo'@'%'", "ALTER USER 'grampus.admin'"])
def test_a_password_that_cannot_be_changed_keeps_everybody_out(
    tmp_path: Path, flavour: FlavourName, failing: str
) -> None:
    copy = Copy(tmp_path, flavour)
    copy.host.failing_statement = failing
    with pytest.raises(GrampusError) as caught:
        copy.serve()
    assert caught.value.code == "identity-failed"
    # Whoever knows the source's password tries it on the copy.
    option_file = copy.host.files[PurePosixPath(copy.plan.option_file)]
    option_file.content = re.sub("password=.*", "password=old-u", option_file.content)
    argv = ["mysql", f"--defaults-file={copy.plan.option_file}"]
    if copy.plan.daemon in copy.host.daemons:
        assert copy.host.run(argv, daemon=copy.plan.daemon, check=False).returncode != 0


def test_the_gate_looks_at_every_account_of_grampus() -> None:
    lines = render_identity_sql("mysql", NEW, makes_accounts=False).splitlines()
    remembered, gate = lines[2], lines[-1]
    admins = "('grampus.admin', 'localhost'), ('grampus.admin', '127.0.0.1')"
    listed = f"(('root', 'localhost'), {admins}, ('demo', '%'))"
    assert listed in remembered
    assert listed in gate
    assert gate.startswith("SET GLOBAL offline_mode = ")
    assert remembered.startswith("SET @former = ")
