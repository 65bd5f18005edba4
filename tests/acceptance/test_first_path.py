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

    def __init__(self, command_line: CommandLine, forked: ForkedCommands) -> None:
        # What is tested here is the program, and not that it lists: that needs no new one.
        self._command_line = CommandLine(command_line.lab, command_line.home, forked=forked)
        self._last: list[Any] | None = None

    def before(self) -> list[Any]:
        """As it is; what the command before this one has left, where somebody looked."""
        return self.after() if self._last is None else self._last

    def after(self) -> list[Any]:
        """As it is now."""
        self._last = [self._command_line.json(noun, "list") for noun in ("db", "volume", "lab")]
        return self._last


@pytest.fixture(scope="module")
def looks(lab: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Looks]:
    """What is listed in the lab."""
    directory = tmp_path_factory.mktemp("forked")
    with forked_commands(directory, lab.environment("")) as forked:
        yield Looks(lab, forked)


@pytest.fixture(scope="module")
def shop(lab: CommandLine) -> Iterator[CommandLine]:
    """The lab with a database `shop` in it."""
    lab.ok("db", "create", "shop", "--size", "2G", "--memory", "320M")
    yield lab
    lab.ok("db", "delete", "shop", "--now", "--yes")


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


def test_volume_shows_a_real_image(shop: CommandLine) -> None:
    volume = shop.json("volume", "show", "shop")
    assert {"image", "pool", "driver", "device", "client_address", "filesystem"} <= set(volume)
    assert volume["filesystem"] == "xfs"
    tag = shop.json("lab", "status")["spec"]["tag"]
    image = f"{volume['pool']}/{volume['image']}"
    watchers = json.loads(lab_container(tag, "h1", "rbd", "status", "--format", "json", image))[
        "watchers"
    ]
    assert volume["client_address"] in [watcher["address"] for watcher in watchers]
    mounted = [line.split()[:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    assert [volume["device"], volume["mount_path"], "xfs"] in mounted
    metadata = lab_container(tag, "h1", "rbd", "image-meta", "list", image)
    assert "shop" in metadata
    user = lab_container(tag, "h1", "ceph", "auth", "get", f"client.{volume['ceph_user']}")
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


def test_server_runs_within_its_limits(shop: CommandLine) -> None:
    status = shop.json("lab", "status")
    pid = next(
        daemon["pid"]
        for host in status["hosts"]
        for daemon in host["daemons"]
        if daemon["name"] == "mysqld-shop"
    )
    groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    limits = []
    for line in groups:
        _, controllers, path = line.split(":", 2)
        for file in ("memory.limit_in_bytes", "memory.max"):
            for root in ("/sys/fs/cgroup", f"/sys/fs/cgroup/{controllers}"):
                limit = Path(f"{root}{path}/{file}")
                if limit.exists():
                    limits.append(limit.read_text().strip())
    assert str(320 * 1024 * 1024) in limits
    uid = int(Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0])
    assert uid == shop.json("db", "show", "shop")["server_uid"]
    assert uid not in (0, 64050), "each server has a user of its own"


def test_writes_go_on_when_an_osd_dies_and_then_a_host(shop: CommandLine) -> None:
    database = shop.json("db", "show", "shop")
    others = [
        h["name"] for h in shop.json("lab", "status")["hosts"] if h["name"] != database["host"]
    ]
    with Ledger(shop, "shop") as ledger:
        victim = next(
            daemon["name"]
            for host in shop.json("lab", "status")["hosts"]
            if host["name"] == others[0]
            for daemon in host["daemons"]
            if daemon["name"].startswith("osd-")
        )
        shop.ok("lab", "fault", "kill-daemon", victim)
        ledger.wait_for_more()
        refused = shop.run("lab", "fault", "kill-host", others[1])
        assert refused.code == 4, "one copy of two that are needed would be left"
        # The host of the OSD that is dead already: no further copy is lost with it.
        shop.ok("lab", "fault", "kill-host", others[0])
        ledger.wait_for_more(timeout_s=90)
        shop.ok("lab", "fault", "heal")
        shop.ok("lab", "fault", "partition", others[1])
        ledger.wait_for_more(timeout_s=90)
        shop.ok("lab", "fault", "heal")
        ledger.wait_for_more()
    assert ledger.missing() == []
    wait_for_health(shop)


def test_killed_driver_is_mended_and_nothing_acknowledged_is_lost(shop: CommandLine) -> None:
    shop.sql("shop", "create schema if not exists k; create table k.t (i int); select 1")
    shop.sql("shop", "insert into k.t values (1), (2), (3); select 1")
    daemon = next(
        daemon["name"]
        for host in shop.json("lab", "status")["hosts"]
        for daemon in host["daemons"]
        if daemon["name"].endswith("-shop") and not daemon["name"].startswith("mysqld")
    )
    shop.ok("lab", "fault", "kill-daemon", daemon)
    assert shop.json("db", "show", "shop")["status"] == "volume-lost"
    shop.ok("db", "start", "shop")
    assert shop.json("db", "show", "shop")["status"] == "running"
    assert shop.sql("shop", "select count(*) from k.t") == [["3"]]


def test_quick_suite_measures_both_arms(shop: CommandLine) -> None:
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
    assert {"osd-0@h1", "osd-1@h2", "osd-2@h3", "shop"} <= names
    rows = int(shop.sql("shop", "select count(*) from sbtest.sbtest1")[0][0])
    assert rows > 10_000
    # The other arm left nothing running.
    daemons = [d["name"] for h in shop.json("lab", "status")["hosts"] for d in h["daemons"]]
    assert not [name for name in daemons if "local" in name]


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
    shop: CommandLine, looks: Looks, arguments: list[str], code: int, says: str
) -> None:
    before = looks.before()
    finished = shop.run(*arguments)
    assert (finished.code, says in finished.stderr) == (code, True), finished.stderr
    assert "Traceback" not in finished.stderr
    assert looks.after() == before


def test_dry_run_prints_a_plan_and_changes_nothing(shop: CommandLine) -> None:
    for arguments in (
        ["db", "create", "new", "--size", "1G"],
        ["db", "delete", "shop"],
        ["volume", "create", "new", "--size", "1G"],
        ["lab", "down"],
        ["lab", "up"],
        ["bench", "run", "quick", "--db", "shop"],
    ):
        assert len(shop.json(*arguments, "--dry-run")["plan"]) >= 1
    assert [entry["name"] for entry in shop.json("db", "list")["databases"]] == ["shop"]


def test_volume_by_itself(lab: CommandLine) -> None:
    lab.ok("volume", "create", "scratch", "--size", "1G")
    try:
        attached = lab.json("volume", "attach", "scratch", "--host", "h2")
        file = Path(attached["mount_path"]) / "file"
        file.write_bytes(b"kept" * 1000)
        refused = lab.run("volume", "attach", "scratch", "--host", "h3")
        assert refused.code == 4
        lab.ok("volume", "detach", "scratch")
        assert not file.exists()
        again = lab.json("volume", "attach", "scratch", "--host", "h3")
        assert (Path(again["mount_path"]) / "file").read_bytes() == b"kept" * 1000
    finally:
        lab.ok("volume", "delete", "scratch", "--yes")
    assert lab.run("volume", "show", "scratch").code == 3


def test_ctrl_c_cleans_up(lab: CommandLine) -> None:
    command = lab.start("db", "create", "cut", "--size", "1G", "--memory", "256M")
    assert command.stderr is not None
    attaching = any(line.startswith("Attach the volume") for line in command.stderr)
    assert attaching, "it ended before it could be interrupted"
    command.send_signal(2)
    _, _ = command.communicate(timeout=120)
    assert command.returncode == 130
    assert "cut" not in [entry["name"] for entry in lab.json("db", "list")["databases"]]
    names = [d["name"] for h in lab.json("lab", "status")["hosts"] for d in h["daemons"]]
    assert not [name for name in names if name.endswith("-cut")]


def test_port_in_use_is_said(lab: CommandLine) -> None:
    lab.ok("db", "create", "first", "--size", "1G", "--memory", "256M", "--host", "h1")
    try:
        address = lab.json("db", "show", "first")["address"]
        lab.ok("db", "stop", "first")
        tag = lab.json("lab", "status")["spec"]["tag"]
        namespace = f"grampus-{tag}-h1"
        add = ["ip", "-netns", namespace, "address", "replace", f"{address}/24", "dev", "eth0"]
        subprocess.run(add, check=True)
        listen = (
            f"import socket, time; s = socket.create_server(({address!r}, 3306)); "
            "print('x', flush=True); time.sleep(120)"
        )
        with subprocess.Popen(
            ["ip", "netns", "exec", namespace, "python3", "-c", listen],
            stdout=subprocess.PIPE,
            text=True,
        ) as squatter:
            try:
                assert squatter.stdout is not None
                assert squatter.stdout.readline() == "x\n"
                refused = lab.run("db", "start", "first")
                assert refused.code != 0
                assert "3306" in refused.stderr
            finally:
                squatter.terminate()
        wait_for(lambda: lab.run("db", "start", "first").code == 0, "the start", 60)
    finally:
        lab.ok("db", "delete", "first", "--now", "--yes")
