"""On a machine where nothing was made yet, or where what was asked for is wrong.

Every command says so in sentences, with the right code, and leaves nothing behind.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grampus.cli.main import app
from grampus.state.home import HOME_VARIABLE

NO_LAB = ("There is no lab named 'default'.", "`grampus lab up` creates one.")
NO_RUN = ("There is no run yet.", "`grampus bench run quick --db NAME` makes one.")


@pytest.mark.parametrize("output_format", ["human", "json"])
@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("lab status", NO_LAB),
        ("lab down", NO_LAB),
        ("lab down --yes", NO_LAB),
        ("lab down --dry-run", NO_LAB),
        ("lab fault kill-daemon osd-0", NO_LAB),
        ("lab fault kill-host h1 --force", NO_LAB),
        ("lab fault partition h1", NO_LAB),
        ("lab fault heal", NO_LAB),
        ("db list", NO_LAB),
        ("db show x", NO_LAB),
        ("db create x --size 4G", NO_LAB),
        ("db create x --size 4G --dry-run", NO_LAB),
        ("db create x --size 4G --write-path journal", NO_LAB),
        ("db set x --write-path journal", NO_LAB),
        ("db set x --write-path direct --dry-run", NO_LAB),
        ("db set x --max-lag 50ms", NO_LAB),
        ("db create x --size 4G --write-path cache --max-lag 0.5s", NO_LAB),
        ("db delete x --yes", NO_LAB),
        ("db start x", NO_LAB),
        ("db stop x", NO_LAB),
        ("db protect x", NO_LAB),
        ("db unprotect x", NO_LAB),
        ("volume list", NO_LAB),
        ("volume show x", NO_LAB),
        ("volume create x --size 4G", NO_LAB),
        ("volume attach x --host h1", NO_LAB),
        ("volume attach x --host h1 --driver volumed --transport classic", NO_LAB),
        ("volume detach x", NO_LAB),
        ("volume resize x --size 4G", NO_LAB),
        ("volume resize x --size 4G --dry-run", NO_LAB),
        ("volume create x --size 4G --write-path journal", NO_LAB),
        ("volume set x --write-path journal", NO_LAB),
        ("volume set x --write-path direct --dry-run", NO_LAB),
        ("volume set x --write-path cache --max-lag 50ms", NO_LAB),
        ("volume replay x", NO_LAB),
        ("volume replay x --dry-run", NO_LAB),
        ("volume fence x", NO_LAB),
        ("volume fence x --yes", NO_LAB),
        ("volume delete x --yes", NO_LAB),
        ("bench run quick --db x", NO_LAB),
        ("bench show", NO_RUN),
        ("bench show latest", NO_RUN),
        ("bench show ../../etc", NO_RUN),
        ("bench compare one two", NO_RUN),
        ("report build", NO_RUN),
    ],
)
def test_nothing_is_there(
    home: Path, line: str, sentences: tuple[str, str], output_format: str
) -> None:
    result = CliRunner().invoke(app, [*line.split(), "--format", output_format])
    assert result.exit_code == 3
    assert all(sentence in result.stderr for sentence in sentences)
    if output_format == "json":
        error = json.loads(result.stdout)["error"]
        assert (error["problem"], error["remedy"]) == sentences
        assert error["code"] == "not-found"
    else:
        assert result.stdout == ""
        assert result.stderr == f"error: {sentences[0]}\n{sentences[1]}\n"
    assert not home.exists()


def test_connecting_to_nothing(home: Path) -> None:
    result = CliRunner().invoke(app, ["db", "connect", "x", "-e", "select 1"])
    assert result.exit_code == 3
    assert NO_LAB[0] in result.stderr
    assert not home.exists()


@pytest.mark.parametrize(
    ("line", "empty"),
    [
        ("lab list", "There is no lab yet. `grampus lab up` creates one."),
        ("bench list", "There is no run yet. `grampus bench run quick --db NAME` makes one."),
    ],
)
def test_empty_list_says_how_to_make_the_first(home: Path, line: str, empty: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0
    assert empty in result.stdout
    assert not home.exists()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("db create x --size banana", "'banana' is not a size."),
        ("db create x --size 0", "The size must be more than zero."),
        ("volume resize x --size banana", "'banana' is not a size."),
        ("db create x --size 1M", "A size of 1 MiB is too small for a database."),
        ("db create x --size 999999T", "too big for a database."),
        ("db create x --size 4G --memory banana", "'banana' is not a memory size."),
        ("db create x --size 4G --memory 1M", "1 MiB of memory is too little for a server."),
        ("db create x --size 4G --cpus 0", "0 CPUs are too few for a server."),
        ("db create x --size 4G --cpus nan", "nan CPUs are too few for a server."),
        ("db create x --size 4G --flavour mysq", "Did you mean 'mysql'?"),
        ("db create My_Shop --size 4G", "Did you mean 'my-shop'?"),
        ("db create ../x --size 4G", "'../x' is not a valid database name."),
        ("db create mysql --size 4G", "'mysql' is a reserved word"),
        ("volume create x --size 10X", "'10X' is not a size."),
        ("volume create ../x --size 4G", "'../x' is not a valid volume name."),
        ("volume create x;reboot --size 4G", "'x;reboot' is not a valid volume name."),
        ("lab up --media tape", "'tape' is not a media name."),
        ("lab up --osd-size banana", "'banana' is not an OSD size."),
        ("lab up --lab ../x", "'../x' is not a valid lab name."),
        ("lab status --lab UP", "'UP' is not a valid lab name."),
        ("db list --lab ../../x", "'../../x' is not a valid lab name."),
        ("lab down --lab all", "'all' is a reserved word and is not available as a lab name."),
    ],
)
def test_wrong_request_changes_nothing(home: Path, line: str, sentence: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 2
    assert result.stdout == ""
    assert not home.exists()
    assert list(home.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("lab up --hosts 2", "A lab has 3 to 9 hosts, not 2."),
        ("lab up --hosts 10", "A lab has 3 to 9 hosts, not 10."),
        ("lab up --hosts -1", "A lab has 3 to 9 hosts, not -1."),
        ("lab up --osds-per-host 0", "A host has 1 to 8 OSDs, not 0."),
    ],
)
def test_lab_that_cannot_be_is_not_begun(home: Path, line: str, sentence: str) -> None:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 2
    assert sentence in result.stderr
    listed = CliRunner().invoke(app, ["lab", "list", "--format", "json"])
    assert json.loads(listed.stdout) == {"labs": []}
    # State, locks, a reserve of room and the log alone: no image, no lab, no run.
    left = {path.name.partition("-")[0] for path in home.iterdir()}
    assert left <= {"locks", "log", "state.db", ".reserve"}


def test_damaged_state_is_two_sentences_and_stays_as_it_is(home: Path) -> None:
    home.mkdir()
    (home / "state.db").write_text("this is no database " * 100)
    for line in ("lab status", "db list", "lab down", "volume show x"):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 1
        assert "cannot be used: file is not a database" in result.stderr
        assert len(result.stderr.splitlines()) == 2
    assert (home / "state.db").read_text().startswith("this is no database")
    assert sorted(path.name for path in home.iterdir()) == ["log", "state.db"]


@pytest.mark.parametrize("root", ["/dev/null/grampus", "/proc/none-such"])
@pytest.mark.parametrize("line", ["lab up --hosts 2", "lab up --dry-run"])
def test_home_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, root: str, line: str) -> None:
    monkeypatch.setenv(HOME_VARIABLE, root)
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 1
    assert f"{root} cannot be used: " in result.stderr
    assert HOME_VARIABLE in result.stderr


def test_run_of_another_version_is_named(home: Path) -> None:
    (home / "runs" / "20260101-quick").mkdir(parents=True)
    (home / "runs" / "20260101-quick" / "run.json").write_text('{"run_id": "20260101-quick"}')
    result = CliRunner().invoke(app, ["bench", "show", "latest", "--format", "json"])
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "run-unreadable"
    assert "runs/20260101-quick cannot be read: suite: Field required." in error["problem"]
