"""`db set --dry-run`: the steps of several changes, told at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from grampus.cli import db_resources
from grampus.cli.main import app
from grampus.databases.service import DatabaseService
from tests.unit.databases.live.live_world import LiveWorld

CHANGES = ("--memory", "640M", "--parameter", "innodb_io_capacity=900", "--write-path", "direct")


def test_a_dry_run_tells_all_changes_and_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(LiveWorld(tmp_path)) as world:
        world.create()
        before = world.inventory()

        @contextmanager
        def work(_lab: str, *, dry_run: bool) -> Iterator[tuple[object, DatabaseService]]:
            assert dry_run
            with world.runner.planning():
                session = SimpleNamespace(runner=world.runner, databases=world.service)
                yield session, world.service()

        monkeypatch.setattr(db_resources, "work_on_databases", work)
        argv = ["db", "set", "demo", *CHANGES, "--dry-run", "--format", "json"]
        plan = json.loads(CliRunner().invoke(app, argv).stdout)["plan"]
        assert world.inventory() == before
    begins = [
        "Limit the server to 1 CPU and 640 MiB of memory",
        "Set innodb_io_capacity in the running server",
        "Set the write path of the volume to direct",
    ]
    assert [step for step in plan if step in begins] == begins
