"""Check that the modules of each crate import one way.

scripts/check_crates.py [DIRECTORY]    a Cargo workspace (default: dataplane)

Modules of a crate never import each other in a circle: neither files nor, at each level, folders
(a folder is a module with all that is inside). So the modules have an order, and a reader can
start at the bottom. Prints one line per circle; the exit code is 1 if there is one.

An import is a `use`, or a path in the code, that begins with `crate::`, `super::` or `self::` or
names a submodule. What a module passes on (`pub use`) counts as an import of where it is from.
Declarations of modules, and unit tests at the end of a file, do not count.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

Module = tuple[str, ...]  # its path in the crate; the root is ()
Graph = dict[Module, set[Module]]

_COMMENT = re.compile(r"//[^\n]*")
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{")
_USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


def parse_tree(tree: str) -> Iterator[tuple[str, ...]]:
    """The paths that the tree of a `use` names, without the names that they are given."""
    head, brace, inner = tree.partition("{")
    first = tuple(head.split(" as ")[0].replace(" ", "").strip(":").split("::")) if head else ()
    if not brace:
        yield first
        return
    depth, part = 0, ""
    for letter in inner[: inner.rindex("}")] + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter != "," or depth:
            part += letter
        elif part.strip():
            for rest in parse_tree(part.strip()):
                yield (*first, *rest)
            part = ""
        else:
            part = ""


def read_modules(source: Path) -> dict[Module, str]:
    """The code of each module below `source`, without comments and unit tests."""
    modules: dict[Module, str] = {}
    for file in sorted(source.rglob("*.rs")):
        parts = file.relative_to(source).with_suffix("").parts
        name = parts[:-1] if parts[-1] == "mod" or parts == ("lib",) else parts
        code = _COMMENT.sub("", file.read_text())
        tests = _TESTS.search(code)
        modules[name] = code[: tests.start()] if tests else code
    return modules


class Crate:
    """The modules of a crate, and what each of them imports."""

    def __init__(self, modules: Mapping[Module, str]) -> None:
        self._modules = modules
        self._passed_on: dict[Module, dict[str, tuple[Module, tuple[str, ...]]]] = {}
        uses: dict[Module, list[tuple[str, ...]]] = {}
        for module, code in modules.items():
            self._passed_on[module] = {}
            uses[module] = []
            for visible, tree in _USE.findall(code):
                for path in parse_tree(" ".join(tree.split())):
                    uses[module].append(path)
                    if visible:
                        self._passed_on[module][path[-1]] = (module, path)
            uses[module] += [tuple(p.split("::")) for p in _PATH.findall(_USE.sub("", code))]
        self.imports: Graph = {
            module: {
                target
                for path in paths
                if (target := self._resolve(module, path)) is not None and target != module
            }
            for module, paths in uses.items()
        }

    def _resolve(self, module: Module, path: tuple[str, ...], hops: int = 8) -> Module | None:
        """The module that `path` in `module` leads to; None outside the crate."""
        base, rest = module, path
        if rest[0] == "crate":
            base, rest = (module[:1] if module[:1] == ("main",) else ()), rest[1:]
        elif rest[0] in ("super", "self"):
            while rest and rest[0] in ("super", "self"):
                base, rest = (base[:-1] if rest[0] == "super" else base), rest[1:]
        elif (*module, rest[0]) not in self._modules:
            return None
        while rest and (*base, rest[0]) in self._modules:
            base, rest = (*base, rest[0]), rest[1:]
        if rest and hops and (found := self._passed_on.get(base, {}).get(rest[0])):
            return self._resolve(*found, hops - 1) or base
        return base


def find_circle(graph: Mapping[Module, Iterable[Module]]) -> list[Module] | None:
    """Modules each of which imports the next, the last the first; None when there are none."""
    done: set[Module] = set()

    def walk(module: Module, trail: list[Module]) -> list[Module] | None:
        if module in trail:
            return trail[trail.index(module) :]
        if module in done:
            return None
        for target in sorted(graph.get(module, ())):
            if circle := walk(target, [*trail, module]):
                return circle
        done.add(module)
        return None

    for module in sorted(graph):
        if circle := walk(module, []):
            return circle
    return None


def folded(graph: Graph, parent: Module) -> Graph:
    """The imports between the modules right below `parent`, each with all that is inside."""
    level = len(parent) + 1
    inside = {m: m[:level] for m in graph if len(m) >= level and m[: len(parent)] == parent}
    result: Graph = {name: set() for name in inside.values()}
    for module, name in inside.items():
        result[name] |= {inside[t] for t in graph[module] if inside.get(t, name) != name}
    return result


def find_faults(source: Path) -> Iterator[str]:
    graph = Crate(read_modules(source)).imports
    levels = {module[:depth] for module in graph for depth in range(len(module))}
    for circle in [find_circle(graph), *(find_circle(folded(graph, p)) for p in sorted(levels))]:
        if circle:
            names = ["::".join(module) or "lib" for module in [*circle, circle[0]]]
            circle_text = " -> ".join(names)
            yield (
                f"{source}: modules import each other: {circle_text}. "
                "Move what both sides need to a module of its own."
            )


def main(directory: Path) -> int:
    workspace = tomllib.loads((directory / "Cargo.toml").read_text())["workspace"]
    crates = [directory / member / "src" for member in workspace["members"]]
    faults = [fault for source in crates for fault in find_faults(source)]
    sys.stderr.writelines(f"{fault}\n" for fault in dict.fromkeys(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "dataplane")))
