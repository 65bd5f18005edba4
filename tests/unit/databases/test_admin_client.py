"""Clients that take every connection do not keep Grampus out (INV-72, INV-78).

The script that hands the client its options and statements is run by a real shell.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest
from pydantic import SecretStr

from grampus.core.errors import GrampusError
from grampus.databases.admin_client import AdminPort, render_admin_options
from grampus.databases.administrator import Administrator, StatementFailedError
from grampus.databases.application_support import load_time_zones
from grampus.databases.layout import RUN_IN_DAEMON
from grampus.databases.model import FlavourName
from grampus.databases.settings import decide_admin_address, decide_admin_port
from grampus.databases.stopping import DISMISS, HOLD, ensure_stopping, hold
from grampus.databases.users.secret_statements import SecretStatements, SqlError
from grampus.hosts.port import CommandResult
from tests.fakes.programs import put_programs

PORT = AdminPort("127.77.0.5", 33062, PurePosixPath("/data/databases/demo/tls/ca.pem"))
CROWDED = "ERROR 1040 (HY000): Too many connections"
# It says where it went, what it was told, and what it read; the first word tells it what to do.
CLIENT = """#!/bin/sh
options=$(cat "${1#--defaults-file=}")
place=$(printf '%s\\n' "$options" | sed -n 's/^\\(socket\\|host\\)=.*/\\1/p')
if [ -e "$CLIENTS/refuses-$place" ]; then cat "$CLIENTS/refuses-$place" >&2; exit 1; fi
if [ -e "$CLIENTS/fails" ]; then cat >/dev/null; cat "$CLIENTS/fails" >&2; exit 1; fi
shift
printf '%s\\t%s\\t%s\\n' "$place" "$(printf %s "$options" | sed -n s/^password=//p)" "$*"
cat
"""


@dataclass
class ShellHost:
    """A host that runs commands in a shell, with a client of our own in place of the server's."""

    directory: Path
    argv: list[tuple[str, ...]] = field(default_factory=list)
    said: list[CommandResult] = field(default_factory=list)

    def run(self, argv: list[str], *, stdin: str, **_: object) -> CommandResult:
        self.argv.append(tuple(argv))
        path = f"{self.directory}:{os.environ['PATH']}"
        done = subprocess.run(
            argv,
            input=stdin,
            text=True,
            capture_output=True,
            env={"PATH": path, "CLIENTS": str(self.directory)},
            timeout=30,
            check=False,
        )
        result = CommandResult(tuple(argv), done.returncode, done.stdout, done.stderr)
        self.said.append(result)
        return result

    def refuse(self, what: str, said: str) -> None:
        (self.directory / what).write_text(f"{said}\n")


@pytest.fixture
def host(tmp_path: Path) -> ShellHost:
    put_programs(tmp_path, dict.fromkeys(("mysql", "mariadb"), CLIENT))
    return ShellHost(tmp_path)


def administrator(host: ShellHost, port: AdminPort | None = PORT) -> Administrator:
    return Administrator(host, "d", "mysql", SecretStr("geheim"), port=port)  # type: ignore[arg-type]


def test_options_and_statements_reach_the_client_apart(host: ShellHost) -> None:
    sql = "SELECT 'a  b\\\\c', \"$(x)\";\n\n  SELECT '%s;\\n'"
    (first, *rest) = administrator(host).query(sql)
    assert first[:2] == ("socket", "geheim")
    assert "\n".join("\t".join(row) for row in rest) == sql


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_no_command_line_has_statements_or_passwords(flavour: FlavourName, host: ShellHost) -> None:
    asked = Administrator(host, "d", flavour, SecretStr("geheim"), port=PORT)  # type: ignore[arg-type]
    asked.query("SET GLOBAL init_connect = 'SET @value = 5'")
    secrets = SecretStatements(host, "d", flavour, SecretStr("geheim"), PORT)  # type: ignore[arg-type]
    secrets.run("ALTER USER u IDENTIFIED BY 'verborgen'")
    words = " ".join(" ".join(argv) for argv in host.argv)
    assert not [word for word in ("geheim", "@value", "verborgen") if word in words]


@pytest.mark.parametrize(
    "said",
    [
        CROWDED,
        "ERROR 2002 (HY000): Can't connect to local server through socket (11)",
        "ERROR 2013 (HY000): Lost connection to server at 'reading initial communication packet'",
    ],
)
def test_a_client_without_a_session_goes_to_the_administrative_port(
    host: ShellHost, said: str
) -> None:
    host.refuse("refuses-socket", said)
    rows = administrator(host).query("SELECT 1")
    assert (rows[0][:2], rows[1:]) == (("host", "geheim"), [("SELECT 1",)])
    secrets = SecretStatements(host, "d", "mysql", SecretStr("x"), PORT)  # type: ignore[arg-type]
    assert secrets.run("DO 0")[0][0] == "host"
    assert len(host.argv) == 4, "one attempt at each door"


@pytest.mark.parametrize(
    "said",
    [
        "ERROR 1045 (28000): Access denied for user",
        "ERROR 1040 (HY000) at line 1: Too many connections",
        "ERROR 2013 (HY000) at line 1: Lost connection to server during query",
    ],
)
def test_statements_that_were_begun_are_never_begun_again(host: ShellHost, said: str) -> None:
    host.refuse("fails", said)
    with pytest.raises(StatementFailedError):
        administrator(host).query("INSERT INTO t VALUES (1)")
    assert len(host.argv) == 1


def test_a_server_of_an_earlier_release_has_no_port_and_the_first_refusal_counts(
    host: ShellHost,
) -> None:
    host.refuse("refuses-socket", CROWDED)
    host.refuse("refuses-host", "ERROR 2003 (HY000): Can't connect to server (111)")
    with pytest.raises(StatementFailedError, match="Too many connections"):
        administrator(host).query("SELECT 1")
    with pytest.raises(SqlError, match="Too many connections"):
        SecretStatements(host, "d", "mysql", SecretStr("x"), PORT).run("DO 0")  # type: ignore[arg-type]
    with pytest.raises(StatementFailedError, match="Too many connections"):
        administrator(host, port=None).query("SELECT 1")


def test_what_the_port_says_of_a_statement_counts(host: ShellHost) -> None:
    host.refuse("refuses-socket", CROWDED)
    host.refuse("fails", "ERROR 1064 (42000) at line 1: You have an error")
    with pytest.raises(StatementFailedError) as caught:
        administrator(host).query("SELEC 1")
    assert caught.value.number == 1064


@pytest.mark.parametrize("is_crowded", [False, True])
def test_a_stop_sends_clients_away_through_whichever_door_is_open(
    host: ShellHost, is_crowded: bool
) -> None:
    # What ends the server is the last command: here it must not run.
    put_programs(host.directory, {"sleep": '#!/bin/sh\nkill -KILL "$PPID"\n'})
    if is_crowded:
        host.refuse("refuses-socket", CROWDED)
    ensure_stopping(administrator(host))
    (result,) = host.said
    assert result.stdout.split("\t")[0] == ("host" if is_crowded else "socket")
    assert DISMISS in result.stdout
    assert "geheim" not in " ".join(result.argv)


def put_server(host: ShellHost, directory: Path) -> subprocess.Popen[bytes]:
    """A process in the server's place, which `host`'s commands find by its process id."""
    server = subprocess.Popen(["sleep", "600"])
    pid_file = RUN_IN_DAEMON / "mysqld.pid"
    programs = {
        # As in the server's container, where that file is.
        "cat": f'#!/bin/sh\n[ "$1" = {pid_file} ] && echo {server.pid} || exec /bin/cat "$@"\n',
        "sleep": "#!/bin/sh\n",
    }
    put_programs(directory, programs)
    return server


@pytest.mark.parametrize("is_crowded", [False, True])
def test_a_held_server_ends_also_if_nobody_kills_it(
    host: ShellHost, tmp_path: Path, is_crowded: bool
) -> None:
    with put_server(host, tmp_path) as server:
        try:
            if is_crowded:
                host.refuse("refuses-socket", CROWDED)
            assert hold(administrator(host))
            (result,) = host.said
            assert result.stdout.split("\t")[0] == ("host" if is_crowded else "socket")
            assert HOLD in result.stdout
            assert "geheim" not in " ".join(result.argv)
            assert server.wait(timeout=30) == -signal.SIGTERM
        finally:
            server.kill()


def test_a_server_that_was_not_held_is_left_as_it_is(host: ShellHost, tmp_path: Path) -> None:
    with put_server(host, tmp_path) as server:
        try:
            host.refuse("fails", "ERROR 1205 (HY000): Lock wait timeout exceeded")
            assert not hold(administrator(host))
            assert server.poll() is None
        finally:
            server.kill()


def test_a_server_of_mariadb_is_not_held(host: ShellHost) -> None:
    asked = Administrator(host, "d", "mariadb", SecretStr("geheim"), port=PORT)  # type: ignore[arg-type]
    assert not hold(asked)
    assert host.said == []


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
@pytest.mark.parametrize("is_crowded", [False, True])
def test_time_zones_are_loaded_through_whichever_door_is_open(
    host: ShellHost, flavour: FlavourName, is_crowded: bool
) -> None:
    zones = "#!/bin/sh\necho 'INSERT INTO time_zone VALUES (1);'\n"
    programs = ("mysql_tzinfo_to_sql", "mariadb-tzinfo-to-sql")
    put_programs(host.directory, dict.fromkeys(programs, zones))
    if is_crowded:
        host.refuse("refuses-socket", CROWDED)
    asked = Administrator(host, "d", flavour, SecretStr("geheim"), port=PORT)  # type: ignore[arg-type]
    load_time_zones(asked, nullcontext())
    result = host.said[-1]
    assert result.stdout.split("\t")[:2] == ["host" if is_crowded else "socket", "geheim"]
    assert "INSERT INTO time_zone VALUES (1);" in result.stdout.splitlines()
    assert "geheim" not in " ".join(result.argv)


def test_options_for_the_socket_name_no_host() -> None:
    options = render_admin_options(SecretStr("geheim"), "mysql")
    assert "password=geheim\n" in options
    assert "socket=/run/mysqld/mysqld.sock\n" in options
    assert "host=" not in options


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_options_for_the_port_require_tls(flavour: FlavourName) -> None:
    options = render_admin_options(SecretStr("geheim"), flavour, PORT)
    assert "host=127.77.0.5\nport=33062\n" in options
    assert ("ssl-mode=VERIFY_CA" in options) == (flavour == "mysql")
    assert f"ssl-ca={PORT.authorities}" in options if flavour == "mysql" else "\nssl\n" in options
    assert "socket=" not in options


@pytest.mark.parametrize(
    ("address", "seen"), [("10.77.0.5", "127.77.0.5"), ("192.168.3.200", "127.168.3.200")]
)
def test_each_server_listens_for_grampus_at_an_address_that_only_its_host_reaches(
    address: str, seen: str
) -> None:
    assert decide_admin_address(address) == seen


@pytest.mark.parametrize(("port", "admin_port"), [(3306, 33062), (33062, 33063)])
def test_the_port_for_grampus_is_never_that_of_clients(port: int, admin_port: int) -> None:
    assert decide_admin_port(port) == admin_port


def test_a_look_at_a_server_that_does_not_answer_ends(host: ShellHost) -> None:
    def run(argv: list[str], **_: object) -> CommandResult:
        raise GrampusError("No answer.", code="timeout")

    host.run = run  # type: ignore[method-assign]
    looker = Administrator(host, "d", "mysql", SecretStr("x"), only_looks=True, port=PORT)  # type: ignore[arg-type]
    with pytest.raises(GrampusError) as caught:
        looker.query("SELECT 1")
    assert caught.value.code == "no-answer"
