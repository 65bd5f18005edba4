"""The data plane's binding of librbd, against a real cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.exerciser import build_program
from tests.system.lab_machine import LabMachine

IMAGE = "databases/binding"
SOURCE = CHECKOUT / "dataplane" / "librbd" / "tests" / "cluster.rs"


@pytest.fixture(scope="module")
def binding_tests() -> Path:
    """`SOURCE` as `make rust` has built it."""
    return build_program("test", "--workspace", "--test", "cluster", "--no-run")


def test_the_binding_does_on_a_cluster_what_it_promises(
    lab: CommandLine, binding_tests: Path
) -> None:
    machine = LabMachine(lab, "h1")
    program = machine.scratch() / "librbd-cluster-tests"
    shutil.copy2(binding_tests, program)
    machine.ok("rbd", "create", IMAGE, "--size", "64M", "--image-feature", "exclusive-lock")
    try:
        options = ("--include-ignored", "--test-threads", "1")
        said = machine.ok("env", f"GRAMPUS_TEST_IMAGE={IMAGE}", str(program), *options)
    finally:
        machine.ok("rbd", "snap", "purge", IMAGE)
        machine.ok("rbd", "remove", IMAGE)
    tests = SOURCE.read_text().count("#[test]")
    assert f"test result: ok. {tests} passed" in said, said
