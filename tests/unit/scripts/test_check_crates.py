"""The modules of a crate import one way (scripts/check_crates.py)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "check_crates.py"


def check(directory: Path) -> tuple[int, str]:
    command = [sys.executable, str(SCRIPT), str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def write_crate(directory: Path, files: Mapping[str, str]) -> None:
    (directory / "Cargo.toml").write_text('[workspace]\nmembers = ["one"]\n')
    for name, code in files.items():
        file = directory / "one" / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"lib.rs": "mod a;\nmod b;\n", "a.rs": "", "b.rs": "use crate::a;"}, id="use"),
        pytest.param(
            {"a.rs": "// use crate::b::B;\n", "b.rs": "use crate::a::{self, A as B};"}, id="comment"
        ),
        pytest.param(
            {
                "a.rs": "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
                "b.rs": "use super::a;",
            },
            id="unit tests",
        ),
        pytest.param(
            {"lib.rs": "pub use a::A;\n", "a.rs": "", "b.rs": "use crate::A;"}, id="passed on"
        ),
        pytest.param(
            {"a/mod.rs": "mod low;\n", "a/low.rs": "", "b.rs": "use crate::a::low::Low;"},
            id="folder",
        ),
    ],
)
def test_imports_one_way_are_no_fault(tmp_path: Path, files: Mapping[str, str]) -> None:
    write_crate(tmp_path, files)
    assert check(tmp_path) == (0, "")


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        pytest.param(
            {
                "a.rs": "use crate::b::B;",
                "b.rs": "use std::{io, fmt};\nuse crate::{\n    a::A,\n};",
            },
            "a -> b -> a",
            id="files",
        ),
        pytest.param(
            {
                "a.rs": "fn f() -> crate::b::B {}",
                "b.rs": "use crate::c::C;",
                "c.rs": "use super::a::A;",
            },
            "a -> b -> c -> a",
            id="three, one by its path",
        ),
        pytest.param(
            {"lib.rs": "pub use a::A;\n", "a.rs": "use crate::b::B;", "b.rs": "use crate::A;"},
            "a -> b -> a",
            id="by what the root passes on",
        ),
        pytest.param(
            {"a.rs": "mod b;\nuse self::b::B;", "a/b.rs": "use super::A;"},
            "a -> a::b -> a",
            id="a module and its submodule",
        ),
        pytest.param(
            {
                "low/mod.rs": "",
                "low/a.rs": "use crate::high::b::B;",
                "low/c.rs": "",
                "high/mod.rs": "",
                "high/b.rs": "",
                "high/d.rs": "use crate::low::c::C;",
            },
            "high -> low -> high",
            id="folders whose files do not",
        ),
    ],
)
def test_a_circle_is_named(tmp_path: Path, files: Mapping[str, str], circle: str) -> None:
    write_crate(tmp_path, files)
    code, said = check(tmp_path)
    assert code == 1
    assert f"modules import each other: {circle}." in said, said


def test_the_data_plane_has_no_circle() -> None:
    assert check(ROOT / "dataplane") == (0, "")
