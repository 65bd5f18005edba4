"""From nothing to a measured database, as a user would go, through the command line alone."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from tests.system.command_line import CommandLine
from tests.system.forked_commands import ForkedCommands, forked_commands
from tests.system.lab_machine import wait_for_health
from tests.system.ledger import Ledger
from tests.system.machine import lab_container, wait_for
from tests.system.places import ON_SITE, Place

MAX_REPORT_BYTES = 2 * 1024 * 1024
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Looks:
    """All that is listed, before and after a command; two that follow each other share a look."""

    def __init__(self, line: CommandLine, forked: ForkedCommands) -> None:
        # What is tested here is the program, and not that it lists: that needs no new one.
        self._command_line = CommandLine(line.lab, line.home, forked=forked)
        self._last: list[Any] | None = None

    def before(self) -> list[Any]:
        """As it is; what the command before this one has left, where somebody looked."""
        return self.after() if self._last is None else self._last

    def after(self) -> list[Any]:
        """As it is now."""
        self._last = [self._command_line.json(noun, "list") for noun in ("db", "volume", "lab")]
        return self._last


@pytest.fixture(scope="module")
def looks(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looks]:
    """What is listed in the lab or site."""
    directory = tmp_path_factory.mktemp("forked")
    with forked_commands(directory, place.line.environment("")) as forked:
        yield Looks(place.line, forked)


@pytest.fixture(scope="module")
def shop(place: Place) -> Iterator[CommandLine]:
    """The lab or site with a database `shop` in it."""
    place.line.ok("db", "create", "shop", "--size", "2G", "--memory", "320M")
    yield place.line
    place.line.ok("db", "delete", "shop", "--now", "--yes")


def test_lab_is_a_healthy_cluster(lab: CommandLine) -> None:
    status = lab.json("lab", "status")
    tag = status["spec"]["tag"]
    assert status["state"] == "up"
    wait_for_health(lab)
    assert [host["name"] for host in status["hosts"]] == ["h1", "h2", "h3"]
    daemons = {daemon["name"] for host in status["hosts"] for daemon in host["daemons"]}
    assert {"mon-h1", "mon-h2", "mon-h3", "mgr-h1", "mgr-h2", "osd-0", "osd-1", "osd-2"} <= daemons
    assert len(status["cluster"]["mons_in_quorum"]) == 3
    pool = json.loads(
        lab_container(
            tag, "h1", *["ceph", "osd", "pool", "get", "databases", "all", "--format", "json"]
        )
    )
    assert (pool["size"], pool["min_size"]) == (3, 2)
    rule = json.loads(
        lab_container(
            tag, "h2", *f"ceph osd crush rule dump {pool['crush_rule']} --format json".split()
        )
    )
    assert {"host"} == {step["type"] for step in rule["steps"] if "type" in step}
    objectstore = json.loads(lab_container(tag, "h3", *["ceph", "osd", "metadata", "0"]))
    assert objectstore["osd_objectstore"] == "bluestore"
    for kind in ("cluster", "service", "client"):
        shown = lab_container(tag, "h1", "ceph-conf", "--lookup", f"auth {kind} required")
        assert shown.strip() == "cephx"


def test_volume_shows_a_real_image(place: Place, shop: CommandLine) -> None:
    volume = shop.json("volume", "show", "shop")
    assert {"image", "pool", "driver", "device", "client_address", "filesystem"} <= set(volume)
    assert volume["filesystem"] == "xfs"
    image = f"{volume['pool']}/{volume['image']}"
    watchers = json.loads(place.ceph("rbd", "status", "--format", "json", image))["watchers"]
    assert volume["client_address"] in [watcher["address"] for watcher in watchers]
    mounts = place.run(place.host_of("shop"), "cat", "/proc/self/mounts")
    mounted = [line.split()[:3] for line in mounts.splitlines()]
    assert [volume["device"], volume["mount_path"], "xfs"] in mounted
    assert "shop" in place.ceph("rbd", "image-meta", "list", image)
    user = place.ceph("ceph", "auth", "get", f"client.{volume['ceph_user']}")
    assert f"profile rbd pool={volume['pool']}" in user
    assert "allow *" not in user


def test_database_is_reached_over_tls_only(shop: CommandLine) -> None:
    database = shop.json("db", "show", "shop")
    assert database["status"] == "running"
    with socket.create_connection((database["address"], database["port"]), timeout=5):
        pass  # reachable from this machine, not only from inside
    rows = shop.sql("shop", "select @@require_secure_transport, @@innodb_flush_log_at_trx_commit")
    assert rows == [["1", "1"]]
    cipher = shop.sql("shop", "show session status like 'Ssl_cipher'")
    assert cipher[0][1].startswith("TLS_")
    user = shop.sql("shop", "select current_user()")[0][0]
    assert user.startswith(database["user"])
    denied = shop.run("db", "connect", "shop", "-e", "shutdown")
    assert denied.code != 0


def test_server_runs_within_its_limits(place: Place, shop: CommandLine) -> None:
    memory_bytes, uid = place.limits_of("mysqld-shop")
    assert memory_bytes == 320 * 1024 * 1024
    assert uid not in (0, 64050), "each server has a user of its own"
    shown = place.line.json("db", "show", "shop")
    assert uid == shown["server_uid"]


def test_writes_go_on_when_an_osd_dies_and_then_a_host(place: Place, shop: CommandLine) -> None:
    lab, on = place.cluster, place.host_of("shop")
    hosts = [host for host in lab.json("lab", "status")["hosts"] if host["name"] != on]
    first, second = hosts[0], hosts[1]["name"]
    names = [daemon["name"] for daemon in first["daemons"]]
    with Ledger(shop, "shop") as ledger:
        lab.ok("lab", "fault", "kill-daemon", next(n for n in names if n.startswith("osd-")))
        ledger.wait_for_more()
        refused = lab.run("lab", "fault", "kill-host", second)
        assert refused.code == 4, "one copy of two that are needed would be left"
        # The host of the OSD that is dead already: no further copy is lost with it.
        lab.ok("lab", "fault", "kill-host", first["name"])
        ledger.wait_for_more(timeout_s=90)
        place.heal()
        lab.ok("lab", "fault", "partition", second)
        ledger.wait_for_more(timeout_s=90)
        place.heal()
        ledger.wait_for_more()
    assert ledger.missing() == []


def test_killed_driver_is_mended_and_nothing_acknowledged_is_lost(
    place: Place, shop: CommandLine
) -> None:
    shop.sql("shop", "create schema if not exists k; create table k.t (i int); select 1")
    shop.sql("shop", "insert into k.t values (1), (2), (3); select 1")
    drivers = (name for name in place.daemons() if name.endswith("-shop"))
    place.kill(next(name for name in drivers if not name.startswith("mysqld")))
    assert shop.json("db", "show", "shop")["status"] == "volume-lost"
    shop.ok("db", "start", "shop")
    assert shop.json("db", "show", "shop")["status"] == "running"
    assert shop.sql("shop", "select count(*) from k.t") == [["3"]]


def test_quick_suite_measures_both_arms(place: Place, shop: CommandLine) -> None:
    shop.ok(
        *("bench", "run", "quick", "--db", "shop", "--warmup-s", "1", "--measure-s", "5"),
        timeout_s=600,
    )
    run = shop.json("bench", "show", "latest")
    assert [workload["name"] for workload in run["workloads"]] == [
        "point-select",
        "update-index",
        "read-write",
    ]
    for workload in run["workloads"]:
        for arm in ("ceph", "local"):
            result = workload[arm]
            assert result["tps"] > 0
            assert result["qps"] >= result["tps"]
            assert 0 < result["latency_avg_ms"] <= result["latency_p99_ms"] * 2
            assert result["errors"] == 0
    directory = Path(run["samples"]["dir"])
    for entry in run["samples"]["files"]:
        lines = (directory / entry["file"]).read_text().splitlines()
        # Of five: the last second ends with the load, which on a busy machine reports no more.
        assert len(lines) >= 4, "second by second"
        moments_s = [json.loads(line)["at_s"] for line in lines]
        passed_s = [after - before for before, after in itertools.pairwise(moments_s)]
        assert all(0.3 < passed < 3 for passed in passed_s), "second by second"
    lines = (directory / "resources.jsonl").read_text().splitlines()
    resources = [json.loads(line) for line in lines]
    names = {sample["name"] for sample in resources}
    # The OSDs of a site are not on our hosts.
    osds = set() if ON_SITE else {"osd-0@h1", "osd-1@h2", "osd-2@h3"}
    assert {*osds, "shop"} <= names
    rows = int(shop.sql("shop", "select count(*) from sbtest.sbtest1")[0][0])
    assert rows > 10_000
    # The other arm left nothing running.
    assert not [name for name in place.daemons() if "local" in name]


def test_report_opens_offline(shop: CommandLine, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    shop.ok("report", "build", "latest", "--output", str(report))
    assert report.stat().st_size < MAX_REPORT_BYTES
    problems: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=CHROMIUM_OPTIONS
        )
        page = browser.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(report.as_uri())
        page.wait_for_selector("canvas")
        text = page.inner_text("body")
        browser.close()
    assert problems == []
    assert [url for url in requests if not url.startswith(("data:", report.as_uri()))] == []
    for expected in ("point-select", "update-index", "read-write", "Local disk"):
        assert expected in text


def test_protected_database_is_not_deleted(shop: CommandLine) -> None:
    shop.ok("db", "protect", "shop")
    refused = shop.run("db", "delete", "shop", "--now", "--yes")
    assert (refused.code, "unprotect" in refused.stderr) == (4, True)
    shop.ok("db", "unprotect", "shop")


def test_stop_and_start(shop: CommandLine) -> None:
    before = shop.sql("shop", "select count(*) from sbtest.sbtest1")
    assert shop.json("db", "stop", "shop")["status"] == "stopped"
    assert shop.json("volume", "show", "shop")["device"] is None
    refused = shop.run("db", "connect", "shop", "-e", "select 1")
    assert refused.code == 4
    shop.ok("db", "start", "shop")
    assert shop.sql("shop", "select count(*) from sbtest.sbtest1") == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["db", "create", "shop", "--size", "1G"], 4, "already"),
        (["db", "create", "a b", "--size", "1G"], 2, "not a valid"),
        (["db", "create", "x;reboot", "--size", "1G"], 2, "not a valid"),
        (["db", "create", "../x", "--size", "1G"], 2, "not a valid"),
        (["db", "create", "x'--", "--size", "1G"], 2, "not a valid"),
        (["db", "create", "new", "--size", "0G"], 2, "more than zero"),
        (["db", "create", "new", "--size", "ten"], 2, "not a size"),
        (["db", "create", "new", "--size", "1G", "--memory", "1M"], 2, "memory"),
        (["db", "create", "new", "--size", "1G", "--cpus", "0"], 2, "CPU"),
        (["db", "create", "new", "--size", "1G", "--flavour", "mysq"], 2, "Did you mean 'mysql'"),
        (["db", "create", "new", "--size", "1G", "--host", "h9"], 3, "h9"),
        (["db", "create", "new", "--size", "900G"], 4, "has space"),
        (["db", "show", "shpo"], 3, "Did you mean 'shop'"),
        (["db", "connect", "nothing-here", "-e", "select 1"], 3, "no database"),
        (["db", "delete", "shop"], 2, "--yes"),
        (["volume", "show", "shpo"], 3, "Did you mean 'shop'"),
        (["volume", "create", "shop", "--size", "1G"], 4, "already"),
        (["volume", "delete", "shop", "--yes"], 4, "database"),
        (["volume", "detach", "shop"], 4, "runs on this volume"),
        (["bench", "run", "quik", "--db", "shop"], 3, "Did you mean 'quick'"),
        (["bench", "run", "quick", "--db", "shpo"], 3, "Did you mean 'shop'"),
        (["bench", "show", "no-such-run"], 3, "no run"),
        (["lab", "up", "--hosts", "5"], 2, "--hosts"),
        (["lab", "fault", "kill-daemon", "osd-9"], 3, "osd-9"),
        (["lab", "fault", "kill-host", "h9"], 3, "h9"),
        (["lab", "status", "--lab", "test-mian"], 3, "Did you mean 'test-main'"),
        (["lab", "up", "--lab", "Bad/Name"], 2, "not a valid"),
    ],
)
def test_bad_input_says_what_is_wrong_and_changes_nothing(
    place: Place,
    shop: CommandLine,
    looks: Looks,
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    before = looks.before()
    line = place.cluster if arguments[0] == "lab" else shop
    finished = line.run(*arguments)
    assert (finished.code, says in finished.stderr) == (code, True), finished.stderr
    assert "Traceback" not in finished.stderr
    assert looks.after() == before


def test_dry_run_prints_a_plan_and_changes_nothing(place: Place, shop: CommandLine) -> None:
    for arguments in (
        ["db", "create", "new", "--size", "1G"],
        ["db", "delete", "shop"],
        ["volume", "create", "new", "--size", "1G"],
        ["lab", "down"],
        ["lab", "up"],
        ["bench", "run", "quick", "--db", "shop"],
    ):
        line = place.cluster if arguments[0] == "lab" else shop
        assert len(line.json(*arguments, "--dry-run")["plan"]) >= 1
    assert [entry["name"] for entry in shop.json("db", "list")["databases"]] == ["shop"]


def test_volume_by_itself(place: Place) -> None:
    line, (_, second, third) = place.line, place.hosts
    line.ok("volume", "create", "scratch", "--size", "1G")
    try:
        path = line.json("volume", "attach", "scratch", "--host", second)["mount_path"]
        place.run(second, "sh", "-c", 'yes kept | head -n 1000 > "$1/file"', "write", path)
        refused = line.run("volume", "attach", "scratch", "--host", third)
        assert refused.code == 4
        line.ok("volume", "detach", "scratch")
        place.run(second, "test", "!", "-e", f"{path}/file")
        path = line.json("volume", "attach", "scratch", "--host", third)["mount_path"]
        assert place.run(third, "cat", f"{path}/file") == "kept\n" * 1000
    finally:
        line.ok("volume", "delete", "scratch", "--yes")
    assert line.run("volume", "show", "scratch").code == 3


def test_ctrl_c_cleans_up(place: Place) -> None:
    command = place.line.start("db", "create", "cut", "--size", "1G", "--memory", "256M")
    assert command.stderr is not None
    attaching = any(line.startswith("Attach the volume") for line in command.stderr)
    assert attaching, "it ended before it could be interrupted"
    command.send_signal(2)
    _, _ = command.communicate(timeout=120)
    assert command.returncode == 130
    assert "cut" not in [entry["name"] for entry in place.line.json("db", "list")["databases"]]
    assert not [name for name in place.daemons() if name.endswith("-cut")]


def test_port_in_use_is_said(place: Place) -> None:
    line, host = place.line, place.hosts[0]
    line.ok("db", "create", "first", "--size", "1G", "--memory", "256M", "--host", host)
    try:
        address = line.json("db", "show", "first")["address"]
        line.ok("db", "stop", "first")
        inside = ["nsenter", f"--net={place.network_of(host)}"]
        add = ["ip", "address", "replace", f"{address}/24", "dev", "eth0"]
        subprocess.run([*inside, *add], check=True)
        listen = (
            f"import socket, time; s = socket.create_server(({address!r}, 3306)); "
            "print('x', flush=True); time.sleep(120)"
        )
        with subprocess.Popen(
            [*inside, "python3", "-c", listen], stdout=subprocess.PIPE, text=True
        ) as squatter:
            try:
                assert squatter.stdout is not None
                assert squatter.stdout.readline() == "x\n"
                refused = line.run("db", "start", "first")
                assert refused.code != 0
                assert "3306" in refused.stderr
            finally:
                squatter.terminate()
        wait_for(lambda: line.run("db", "start", "first").code == 0, "the start", 60)
    finally:
        line.ok("db", "delete", "first", "--now", "--yes")
