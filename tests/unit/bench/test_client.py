"""Passwords go into files of mode 0600 and nowhere else."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from grampus.bench.client import (
    ArmClient,
    ensure_client_files,
    ensure_client_files_absent,
    render_sysbench_config,
)
from grampus.bench.drivers.sysbench_command import sysbench_argv, sysbench_prepare_argv
from grampus.bench.quick_plan import BenchOptions, decide_quick_plan
from grampus.bench.quick_suite import Suite, load_suite
from grampus.bench.sysbench import make_load
from grampus.core.errors import GrampusError
from tests.fakes.sysbench_host import PASSWORD, FakeServer, SysbenchHost, make_endpoint

from .test_suite import SUITES

DIRECTORY = PurePosixPath("/data/bench/demo-ceph")


def made(host: SysbenchHost, server: FakeServer) -> ArmClient:
    host.servers["10.0.1.1"] = server
    endpoint = make_endpoint("10.0.1.1", "mysqld-demo")
    return ensure_client_files(host, endpoint, "mysql", DIRECTORY)


def test_every_client_file_is_private_and_can_be_removed() -> None:
    host = SysbenchHost()
    made(host, FakeServer())
    assert sorted(path.name for path in host.files) == [
        "cacert.pem",
        "client-cert.pem",
        "client-key.pem",
        "sysbench.cnf",
    ]
    assert {file.mode for file in host.files.values()} == {0o600}
    assert host.text(f"{DIRECTORY}/cacert.pem") == "/srv/tls/ca.pem of mysqld-demo"
    assert host.text(f"{DIRECTORY}/client-key.pem") == "/srv/tls/client-key.pem of mysqld-demo"
    ensure_client_files_absent(host, DIRECTORY)
    assert host.files == {}


def test_no_command_line_holds_the_password() -> None:
    host = SysbenchHost()
    client = made(host, FakeServer())
    suite: Suite = load_suite(SUITES, "quick")
    plan = decide_quick_plan(
        suite, buffer_pool_bytes=2**26, volume_size_bytes=2**32, options=BenchOptions()
    )
    commands = [
        sysbench_prepare_argv(make_load(client, plan)),
        sysbench_argv(make_load(client, plan, script="oltp_point_select", duration_s=12)),
        *map(list, host.commands),
    ]
    assert PASSWORD in host.text(str(client.sysbench_config))
    assert not [word for command in commands for word in command if PASSWORD in word]


@pytest.mark.parametrize(
    ("require_tls", "line"), [(True, "mysql-ssl=on"), (False, "mysql-ssl=off")]
)
def test_tls_is_used_where_the_server_requires_it(require_tls: bool, line: str) -> None:
    host = SysbenchHost()
    client = made(host, FakeServer(require_tls=require_tls))
    assert line in host.text(str(client.sysbench_config)).splitlines()
    assert (DIRECTORY / "cacert.pem" in host.files) is require_tls


def test_an_instance_that_refuses_its_user_is_explained() -> None:
    host = SysbenchHost()
    with pytest.raises(GrampusError) as caught:
        made(host, FakeServer(refusal="ERROR 2003 (HY000): Can't connect"))
    assert caught.value.code == "instance-unreachable"
    assert "ERROR 2003 (HY000): Can't connect" in caught.value.problem
    assert host.files == {}


def test_a_missing_client_certificate_is_explained() -> None:
    host = SysbenchHost()
    host.cats_fail = True
    with pytest.raises(GrampusError) as caught:
        made(host, FakeServer())
    assert caught.value.code == "client-certificate-missing"
    assert "/srv/tls/ca.pem" in caught.value.remedy


@pytest.mark.parametrize("character", [",", " ", '"', "'", "\\", "ä", "\n"])
def test_passwords_that_sysbench_would_cut_are_refused(character: str) -> None:
    password = f"Zq7{character}kW4"
    endpoint = make_endpoint("10.0.1.1", "mysqld-demo", password=password)
    with pytest.raises(GrampusError) as caught:
        render_sysbench_config(endpoint, tls=True)
    assert caught.value.code == "password-unsupported"
    assert password not in str(caught.value)
