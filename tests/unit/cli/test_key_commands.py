"""Keys of a home, shown, brought out and in again: of backups and of encrypted volumes."""

from __future__ import annotations

import json
import stat
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grampus.cli.main import app
from grampus.databases.backup.keys import backup_keys
from grampus.sites.model import SITE_RECORD
from grampus.state.home import HOME_VARIABLE, Home
from grampus.state.keys import KeptKey, KeptKeys
from grampus.state.store import Store
from grampus.volumes.volume_keys import master_keys
from tests.fakes.specs import site_spec

NOUNS = (["volume", "key"], ["db", "backup", "key"])
LIST_VERBS = {"volume": "show", "db": "list"}


def run(*argv: str) -> Result:
    return CliRunner().invoke(app, list(argv))


def keys_of(noun: list[str], root: Path) -> KeptKeys[KeptKey]:
    home = Home(root)
    return master_keys(home) if noun[0] == "volume" else backup_keys(home)  # type: ignore[return-value]


@pytest.mark.parametrize("noun", NOUNS, ids=" ".join)
def test_key_brought_to_another_home_is_the_same(
    noun: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "out.key"
    key = keys_of(noun, here).ensure_current()
    monkeypatch.setenv(HOME_VARIABLE, str(here))
    result = run(*noun, "export", "--to", str(file))
    assert result.exit_code == 0, result.output
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run(*noun, "export", "--to", str(file)).exit_code == 4  # never over another file
    monkeypatch.setenv(HOME_VARIABLE, str(there))
    assert run(*noun, "import", str(file)).exit_code == 0
    assert keys_of(noun, there).get(key.id) == key
    listed = run(*noun, LIST_VERBS[noun[0]], "--format", "json")
    assert json.loads(listed.stdout)["keys"] == [{"id": key.id, "current": False}]


@pytest.mark.parametrize("noun", NOUNS, ids=" ".join)
def test_nothing_that_is_printed_holds_the_secret(
    noun: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    key = keys_of(noun, tmp_path).ensure_current()
    secret = key.render().split()[2]
    for verb in ([LIST_VERBS[noun[0]]], ["export", "--to", str(tmp_path / "out.key")]):
        for output_format in ("human", "json"):
            result = run(*noun, *verb, "--format", output_format)
            assert secret[:16] not in result.output
            assert key.id in result.output or "already" in result.output


@pytest.mark.parametrize("noun", NOUNS, ids=" ".join)
@pytest.mark.parametrize(
    ("verb", "code", "said"),
    [
        (["export", "--to", "out.key"], 3, "There is no"),
        (["import", "missing.key"], 3, "The file"),
        (["import", "."], 2, "is a directory. Give the file from"),
        (["import", "wrong.key"], 2, "it was changed"),
        (["export", "--to", "out.key", "--key", "00112233aabbccdd"], 3, "import FILE"),
    ],
)
def test_what_cannot_be_done_is_said(
    noun: list[str],
    verb: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.key").write_text("hello")
    result = run(*noun, *verb)
    assert result.exit_code == code
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "out.key").exists()


@pytest.mark.parametrize("noun", NOUNS, ids=" ".join)
@pytest.mark.parametrize(
    ("to", "code", "said"),
    [
        (".", 2, "is a directory. Give the name of a new file in the directory."),
        ("taken.key", 4, "Choose another name."),
        ("missing/out.key", 2, "Create the directory first."),
    ],
)
def test_key_goes_to_a_new_file_in_a_directory_that_is_there(
    noun: list[str],
    to: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys_of(noun, tmp_path / "home").ensure_current()
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.key").write_text("mine")
    result = run(*noun, "export", "--to", to)
    assert result.exit_code == code
    assert said in " ".join(result.output.split())
    assert (tmp_path / "taken.key").read_text() == "mine"
    assert not (tmp_path / "missing").exists()


def test_rotated_backup_key_is_used_from_now_on_and_the_former_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    keys = keys_of(["db", "backup", "key"], tmp_path)
    assert run("db", "backup", "key", "rotate").exit_code == 3
    former = keys.ensure_current()
    planned = run("db", "backup", "key", "rotate", "--dry-run", "--format", "json")
    assert former.id in json.loads(planned.stdout)["plan"][1]
    assert (keys.find_current(), keys.ids(), keys.find_next()) == (former, [former.id], None)
    result = run("db", "backup", "key", "rotate", "--format", "json")
    assert result.exit_code == 0, result.output
    current = keys.ensure_current()
    assert json.loads(result.stdout) == {"key": current.id, "former": former.id}
    assert keys.ids() == sorted([current.id, former.id])
    assert current.render().split()[2] not in result.output


SITE = site_spec()


@pytest.mark.parametrize("noun", NOUNS, ids=" ".join)
def test_a_mistyped_site_does_not_find_the_keys_of_the_home(
    noun: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path))
    key = keys_of(noun, tmp_path).ensure_current()
    listing = (*noun, LIST_VERBS[noun[0]])
    assert key.id in run(*listing, "--lab", "gone").output, "the keys outlive their lab"
    with closing(Store(Home(tmp_path).store_file)) as store:
        store.put(SITE_RECORD, SITE.name, SITE.name, SITE)
    assert key.id in run(*listing).output
    export = (*noun, "export", "--to", str(tmp_path / "out.key"))
    for words in (listing, export):
        result = run(*words, "--site", "prdo")
        assert (result.exit_code, "Did you mean 'prod'?" in result.output) == (3, True)
    assert not (tmp_path / "out.key").exists()
