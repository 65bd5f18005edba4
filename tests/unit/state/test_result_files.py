from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from grampus.core.errors import GrampusError, UsageError
from grampus.state.result_files import require_writable, write_result
from tests.unit.full_disk import files_of_at_most


def test_a_file_that_does_not_fit_is_named_and_the_old_one_stays(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    write_result(target, "old")
    with files_of_at_most(64), pytest.raises(GrampusError) as failed:
        write_result(target, "new" * 100)
    assert str(failed.value).startswith(f"{target} cannot be written to: File too large.")
    assert failed.value.code == "file-unwritable"
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_result(pipe, "page")
    reader.join(timeout=10)
    assert (read, pipe.is_fifo()) == (["page"], True)


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "latest.md"
    link.symlink_to(tmp_path / "page.md")
    write_result(link, "page")
    assert link.is_symlink()
    assert (tmp_path / "page.md").read_text() == "page"


@pytest.mark.parametrize(
    ("name", "said"),
    [(".", "is a directory"), ("nowhere/page.md", "cannot be written to")],
)
def test_where_nothing_can_be_put_is_said_before(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        require_writable(tmp_path / name, example="page.md")
