"""Which lab each published experiment is repeated on. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grampus.bench.matrix.suite import MatrixSuite


@dataclass(frozen=True)
class LabKind:
    """A lab, and what `lab up` is told of it."""

    name: str
    arguments: tuple[str, ...] = ()


# In a lab that has hosts without OSDs each host has a budget of cores: only where a layout matters.
_BOTH_LAYOUTS = ("--hosts", "4", "--osd-hosts", "3")
PLAIN = LabKind("experiments")
LAYOUTS = LabKind("layouts", _BOTH_LAYOUTS)
# FileStore is in Ceph up to 17.
FILESTORE = LabKind("filestore", ("--image", "bookworm", *_BOTH_LAYOUTS))
KINDS = (PLAIN, LAYOUTS, FILESTORE)


def decide_lab(suite: MatrixSuite) -> LabKind:
    """The lab that can run most of the suite's cells."""
    if suite.versions.get("ceph", "").startswith("16."):
        return FILESTORE
    layouts = suite.dimensions.get("layout", [suite.fixed.get("layout")])
    return LAYOUTS if "hyperconverged" in layouts else PLAIN
