"""`bench` on an external cluster, through programs on this machine that answer as Ceph's."""

from __future__ import annotations

import json
import shlex
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grampus.bench.matrix.expansion import estimate_s
from grampus.bench.matrix.loading import load_matrix_suites
from grampus.cli.bench_own_options import OwnClusterOptions
from grampus.cli.main import app
from grampus.core.installation import INSTALLATION
from tests.fakes.programs import put_first_in_path
from tests.unit.bench.own.somebodys_cluster import FSID, SomebodysCluster

# It asks the test for its answer, as the cluster that the test has takes long to import.
ASK = """#!{python} -SE
import socket, sys
with socket.create_connection(("127.0.0.1", {port})) as test:
    test.sendall("\\0".join(sys.argv[1:]).encode())
    test.shutdown(socket.SHUT_WR)
    code, said, complained = test.makefile().read().split("\\0")
sys.stdout.write(said)
sys.stderr.write(complained)
sys.exit(int(code))
"""


@contextmanager
def answering(conf: Path, log: Path) -> Iterator[int]:
    """The port at which the programs' words are taken, noted and answered."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            words = self.rfile.read().decode().split("\0")
            code, said, complained = 1, "", f"asked as another, or elsewhere: {words}"
            if words[:4] == ["--conf", str(conf), "--id", "bench"]:
                with log.open("a") as notes:
                    print(*words[4:], file=notes)
                code, said, complained = SomebodysCluster().run("ceph", words[4:])
            self.wfile.write(f"{code}\0{said}\0{complained}".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A ceph.conf, with the programs for its cluster on PATH."""
    file = tmp_path / "ceph.conf"
    file.write_text("[global]\n")
    with answering(file, tmp_path / "log") as port:
        ask = ASK.format(python=sys.executable, port=port)
        programs = {"ceph": ask, "rados": "#!/bin/sh\n", "rbd": "#!/bin/sh\n"}
        put_first_in_path(tmp_path, programs, monkeypatch)
        yield file


def invoke(line: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, shlex.split(line))
    return result.exit_code, result.stdout, result.stderr


def test_a_dry_run_says_what_can_be_measured_and_changes_nothing(conf: Path, home: Path) -> None:
    code, shown, said = invoke(
        f"bench run cluster-objects --conf {conf} --user bench --dry-run --format json"
    )
    assert code == 0, said
    document = json.loads(shown)
    assert document["place"] == f"cluster {FSID}"
    assert {cell["not_runnable"] for cell in document["cells"]} == {None}
    assert len(document["cells"]) == 6
    assert not home.exists()
    asked = (conf.parent / "log").read_text()
    assert not any(word in asked for word in (" set ", " create ", " rm ", " off"))


def test_a_published_experiment_says_what_an_own_cluster_cannot(conf: Path) -> None:
    line = f"bench run redhat-hci-1-disk-saturation --conf {conf} --user bench --dry-run"
    code, shown, _ = invoke(f"{line} --format json")
    assert code == 0
    reasons = {cell["not_runnable"] for cell in json.loads(shown)["cells"]}
    assert all("an external cluster is measured as it is" in reason for reason in reasons)


def test_tidy_finds_nothing_where_nothing_was_left(conf: Path, home: Path) -> None:
    code, shown, said = invoke(f"bench tidy --conf {conf} --user bench --format json")
    assert code == 0, said
    assert json.loads(shown) == {"cluster": f"cluster {FSID}", "done": [], "left_alone": []}
    code, shown, _ = invoke(f"bench tidy --conf {conf} --user bench --dry-run")
    assert (code, shown) == (0, "Nothing would be changed.\n")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("bench run cluster-objects --conf {none}", 2, "--conf: the file"),
        ("bench tidy --conf {none}", 2, "--conf: the file"),
        ("bench run cluster-objects --conf {conf} --keyring {none}", 2, "--keyring: the file"),
        ("bench run cluster-objects --user bench", 2, "--user says something of a cluster"),
        ("bench run cluster-objects --crush-rule fast", 2, "--crush-rule says something of"),
        ("bench run quick --db demo --conf {conf}", 2, "--conf has no meaning for the suite quick"),
        ("bench run cluster-object --conf {conf}", 3, "Did you mean 'cluster-objects'?"),
        ("bench run paths --conf {conf}", 2, "--conf has no meaning for the suite paths"),
        ("bench run cluster-objects --conf {conf} --lab dev", 2, "names a cluster and a lab"),
        (
            "bench run cluster-objects --conf {conf} --user bench --crush-rule on-sdd --dry-run",
            3,
            "Did you mean 'on-ssd'?",
        ),
    ],
)
def test_what_is_asked_wrongly_is_told(conf: Path, line: str, code: int, said: str) -> None:
    found = invoke(line.format(conf=conf, none=conf.parent / "none"))
    assert found[0] == code, found
    assert said in " ".join(found[2].split())


def test_programs_that_are_missing_are_told(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (conf.parent / "bin" / "rbd").unlink()
    monkeypatch.setenv("PATH", str(conf.parent / "bin"))
    code, _, said = invoke(f"bench run cluster-images --conf {conf}")
    assert code == 1
    assert "The program rbd is missing" in said
    assert "ceph-common" in said


def test_another_command_names_the_same_cluster() -> None:
    words = OwnClusterOptions(Path("/c/a conf"), Path("/c/key"), "u", "on-ssd").words
    assert words == " --conf '/c/a conf' --keyring /c/key --user u --crush-rule on-ssd"


def test_suites_of_clusters_are_short_at_tiny_and_ask_for_no_osds_of_their_own() -> None:
    suites = load_matrix_suites(INSTALLATION.data / "suites" / "clusters")
    assert [suite.name for suite in suites] == ["cluster-images", "cluster-objects"]
    for suite in suites:
        assert estimate_s(suite, "tiny") < 600
        for name in ("media", "wal_db_device", "objectstore"):
            assert suite.fixed[name] == "own"
