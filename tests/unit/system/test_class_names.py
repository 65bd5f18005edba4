"""A public class of benchmarks, reports and state is found by its name alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.system.command_line import CHECKOUT

SOURCE = CHECKOUT / "src" / "grampus"
PARTS = ("bench", "report", "state")


def public_names(file: Path) -> Iterator[str]:
    """Classes, and names of types that look like one (`MediaName = Literal[...]`)."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            yield from (one.id for one in node.targets if isinstance(one, ast.Name))


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for part in PARTS:
        for file in sorted((SOURCE / part).rglob("*.py")):
            for name in public_names(file):
                if name[0].isupper() and not name.isupper():
                    places[name].append(str(file.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert len(places) > 100
