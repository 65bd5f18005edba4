from __future__ import annotations

import pytest
from pydantic import SecretStr

from grampus.databases.model import DatabasePhase, DatabaseStatus, Endpoint
from grampus.databases.view import (
    classify_status,
    client_argv,
    render_client_command,
    render_connection_string,
)
from grampus.hosts.port import DaemonState


@pytest.mark.parametrize(
    ("phase", "reachable", "daemon", "status"),
    [
        ("ready", True, "running", "running"),
        ("ready", True, "stopped", "stopped"),
        ("ready", True, "absent", "stopped"),
        ("ready", False, "absent", "host-down"),
        ("creating", True, "running", "creating"),
        ("creating", False, "absent", "creating"),
        ("deleting", False, "absent", "deleting"),
    ],
)
def test_one_word_for_the_state(
    phase: DatabasePhase, reachable: bool, daemon: DaemonState, status: DatabaseStatus
) -> None:
    assert classify_status(phase, host_reachable=reachable, daemon=daemon) == status


def test_the_connection_string_is_a_url() -> None:
    endpoint = Endpoint(
        address="10.9.0.10",
        port=3306,
        user="my_shop",
        password=SecretStr("s3cret"),
        daemon="mysqld-my-shop",
        host="h1",
        option_file="/data/databases/my-shop/client.cnf",
    )
    with_it, without = (render_connection_string(endpoint, with_password=w) for w in (True, False))
    assert with_it == "mysql://my_shop:s3cret@10.9.0.10:3306/"
    assert without == "mysql://my_shop@10.9.0.10:3306/"
    assert "s3cret" not in repr(endpoint)


@pytest.mark.parametrize("daemon", ["running", "stopped", "absent"])
def test_a_database_without_its_volume_says_so_whether_its_server_has_noticed_or_not(
    daemon: DaemonState,
) -> None:
    status = classify_status("ready", host_reachable=True, daemon=daemon, volume_alive=False)
    assert status == "volume-lost"
    away = classify_status("ready", host_reachable=False, daemon=daemon, volume_alive=False)
    assert away == "host-down"


def test_client_commands_name_a_file_and_no_password() -> None:
    command = render_client_command("mariadb", "/var/lib/my grampus/demo.cnf")
    assert command == "mariadb --defaults-extra-file='/var/lib/my grampus/demo.cnf'"
    assert client_argv("mysql", "/d/client.cnf") == (
        "mysql",
        "--defaults-file=/d/client.cnf",
        "--unbuffered",
    )
    assert client_argv("mysql", "/d/c", draws_tables=True)[-1] == "--table"


@pytest.mark.parametrize(
    ("reachable", "daemon", "volume_alive", "at_work", "status"),
    [
        (True, "running", True, False, "running"),
        (True, "stopped", True, False, "failed"),
        (True, "absent", True, False, "failed"),
        (True, "absent", True, True, "starting"),
        (True, "running", True, True, "running"),
        (True, "stopped", False, False, "volume-lost"),
        (False, "absent", True, False, "host-down"),
    ],
)
def test_a_server_that_is_to_run_and_does_not_has_failed(
    reachable: bool, daemon: DaemonState, volume_alive: bool, at_work: bool, status: DatabaseStatus
) -> None:
    found = classify_status(
        "ready",
        host_reachable=reachable,
        daemon=daemon,
        volume_alive=volume_alive,
        desired="running",
        at_work=at_work,
    )
    assert found == status
