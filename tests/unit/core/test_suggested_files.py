"""What a file that does not exist was most likely meant to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from grampus.core.errors import suggest_file

OTHERWISE = "Give the file of the suite."


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [
        ("my-comits.yaml", "Did you mean '{here}/my-commits.yaml'?"),
        ("my-commits.yml", "Did you mean '{here}/my-commits.yaml'?"),
        ("quite/another", f"{{here}}/quite does not exist. {OTHERWISE}"),
        ("quite/other/one", f"{{here}}/quite does not exist. {OTHERWISE}"),
        (
            "my-commits.yaml/x",
            f"{{here}}/my-commits.yaml is not a directory. {OTHERWISE}",
        ),
        ("zzz", OTHERWISE),
    ],
)
def test_a_name_like_it_or_the_missing_directory_is_named(
    tmp_path: Path, wanted: str, remedy: str
) -> None:
    (tmp_path / "my-commits.yaml").write_text("")
    assert suggest_file(tmp_path / wanted, OTHERWISE) == remedy.format(here=tmp_path)


def test_a_relative_name_stays_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keyring").write_text("")
    monkeypatch.chdir(tmp_path)
    assert suggest_file(Path("keyrign"), OTHERWISE) == "Did you mean 'keyring'?"
