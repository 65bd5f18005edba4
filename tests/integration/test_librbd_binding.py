"""The data plane's binding of librbd, against a real cluster."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pytest

from tests.system.command_line import CHECKOUT, CommandLine
from tests.system.exerciser import build_program
from tests.system.lab_machine import LabMachine

IMAGE = "databases/binding"
ENCRYPTED = "databases/binding-encrypted"
SOURCE = CHECKOUT / "dataplane" / "librbd" / "tests" / "cluster.rs"


@pytest.fixture(scope="module")
def binding_tests() -> Path:
    """`SOURCE` as `make rust` has built it."""
    options = ("--locked", "--quiet", "--workspace", "--test", "cluster", "--no-run")
    return build_program("cargo", "test", *options)


def test_the_binding_does_on_a_cluster_what_it_promises(
    lab: CommandLine, binding_tests: Path
) -> None:
    machine = LabMachine(lab, "h1")
    program = machine.scratch() / "librbd-cluster-tests"
    shutil.copy2(binding_tests, program)
    machine.ok("rbd", "create", IMAGE, "--size", "64M", "--image-feature", "exclusive-lock")
    machine.ok("rbd", "create", ENCRYPTED, "--size", "64M", "--image-feature", "exclusive-lock")
    passphrase = machine.scratch() / "librbd-passphrase"
    passphrase.touch(0o600)
    passphrase.write_text(secrets.token_hex(32))
    try:
        machine.ok("rbd", "encryption", "format", ENCRYPTED, "luks2", str(passphrase))
        options = ("--include-ignored", "--test-threads", "1")
        names = (
            f"GRAMPUS_TEST_IMAGE={IMAGE}",
            f"GRAMPUS_TEST_ENCRYPTED_IMAGE={ENCRYPTED}",
            f"GRAMPUS_TEST_PASSPHRASE_FILE={passphrase}",
        )
        said = machine.ok("env", *names, str(program), *options)
    finally:
        passphrase.unlink()
        machine.ok("rbd", "snap", "purge", IMAGE)
        machine.ok("rbd", "remove", IMAGE)
        machine.ok("rbd", "remove", ENCRYPTED)
    tests = SOURCE.read_text().count("#[test]")
    assert f"test result: ok. {tests} passed" in said, said
