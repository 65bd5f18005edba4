"""What virtual machines are decided to be, and the scripts that make them."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import PurePosixPath

import pytest

from grampus.bench.guests.guest_plan import (
    GUEST_SYSTEM_BYTES,
    Accelerator,
    GuestDisk,
    GuestMachine,
    GuestPlan,
    decide_accelerator,
    parse_cpu_flags,
    why_no_guest,
)
from grampus.bench.guests.scripts import (
    MODULES,
    qemu_argv,
    render_init,
    render_link_up,
    render_start,
)
from grampus.core.units import MIB
from grampus.databases.layout import plan_instance
from tests.unit.bench.guests.world import IMAGE, NAME, make_spec

DATA = PurePosixPath("/data")


def _plan(
    *, accelerator: Accelerator = "tcg", namespace: str | None = "n.1", cpus: float = 2.0
) -> GuestPlan:
    return GuestPlan(
        instance=plan_instance(make_spec(cpus=cpus), DATA, PurePosixPath("/nonexistent")),
        image_id=IMAGE,
        server_root="/images/sid/root",
        disk=GuestDisk("databases", namespace, "demo", "grampus.t.demo"),
        accelerator=accelerator,
        host_address="10.0.0.1",
        etc_ceph=DATA / "etc-ceph",
    )


def _option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def _qemu(plan: GuestPlan) -> list[str]:
    return qemu_argv(plan, initramfs="/i", kernel="/k", link_up="/up")


def _machine(
    *, architecture: str = "x86_64", kvm: bool = True, flags: str = "vmx", tun: bool = True
) -> GuestMachine:
    return GuestMachine(architecture, kvm, frozenset(flags.split()), tun)


@pytest.mark.parametrize(
    ("machine", "accelerator"),
    [
        (_machine(), "kvm"),
        (_machine(flags="fpu svm"), "kvm"),
        # As in a virtual machine whose own processor lends none of it.
        (_machine(flags="fpu hypervisor"), "tcg"),
        (_machine(kvm=False), "tcg"),
    ],
)
def test_kvm_is_used_where_the_processor_can_do_it(
    machine: GuestMachine, accelerator: Accelerator
) -> None:
    assert decide_accelerator(machine) == accelerator


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (_machine(), None),
        (_machine(kvm=False), None),
        (_machine(architecture="aarch64"), "the machine's processor is aarch64"),
        (_machine(tun=False), "TUN"),
    ],
)
def test_where_none_can_run_it_is_said_why(machine: GuestMachine, said: str | None) -> None:
    reason = why_no_guest(machine)
    assert (reason is None) if said is None else (reason is not None and said in reason)


@pytest.mark.parametrize(
    ("cpuinfo", "flags"),
    [
        (
            "processor\t: 0\nflags\t\t: fpu vme\n\nprocessor\t: 1\nflags\t\t: other\n",
            {"fpu", "vme"},
        ),
        ("processor\t: 0\nFeatures\t: fp asimd\n", set()),
        ("", set()),
    ],
)
def test_flags_are_those_of_the_first_processor(cpuinfo: str, flags: set[str]) -> None:
    assert parse_cpu_flags(cpuinfo) == flags


@pytest.mark.parametrize(("cpus", "processors"), [(2.0, "2"), (1.5, "2"), (0.5, "1"), (4.0, "4")])
def test_a_machine_has_whole_processors_and_memory_for_its_own_system(
    cpus: float, processors: str
) -> None:
    argv = _qemu(_plan(cpus=cpus))
    assert _option(argv, "-smp") == processors
    assert _option(argv, "-m") == f"{(make_spec().memory_bytes + GUEST_SYSTEM_BYTES) // MIB}M"


@pytest.mark.parametrize("namespace", ["n.1", None])
def test_its_disk_is_the_image_opened_by_the_volumes_own_user(namespace: str | None) -> None:
    disk = json.loads(_option(_qemu(_plan(namespace=namespace)), "-blockdev"))
    assert (disk["driver"], disk["pool"], disk["image"]) == ("rbd", "databases", "demo")
    assert disk.get("namespace") == namespace
    assert disk["user"] == "grampus.t.demo"
    assert disk["cache"] == {"direct": True}


@pytest.mark.parametrize(
    ("accelerator", "accel", "processor"),
    [("kvm", "kvm", "host"), ("tcg", "tcg,thread=multi,tb-size=256", "max")],
)
def test_emulation_or_kvm(accelerator: Accelerator, accel: str, processor: str) -> None:
    argv = _qemu(_plan(accelerator=accelerator))
    assert (_option(argv, "-accel"), _option(argv, "-cpu")) == (accel, processor)


def test_what_is_shared_with_a_guest_is_read_only() -> None:
    shared = [word for word in _qemu(_plan()) if word.startswith("local,id=")]
    assert len(shared) == 2
    assert all("readonly=on" in word.split(",") for word in shared)
    mounts = [line for line in render_init(_plan()).splitlines() if line.startswith("mount -t 9p")]
    assert len(mounts) == 2
    assert all(",ro," in line for line in mounts)


@pytest.mark.parametrize("render", [render_start, render_link_up, render_init])
def test_a_script_is_one_that_a_shell_reads(render: object) -> None:
    assert callable(render)
    text = render(_plan())
    done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_of_qemu_is_quoted_for_the_shell() -> None:
    line = next(one for one in render_start(_plan()).splitlines() if one.startswith("qemu-"))
    words = shlex.split(line)
    assert words[-2:] == ["<&3", "&"]
    expected = qemu_argv(
        _plan(),
        initramfs="/tmp/initramfs",
        kernel="/boot/vmlinuz-$version",
        link_up=f"/data/databases/{NAME}/guest/link-up.sh",
    )
    assert words[:-2] == expected


def test_a_guest_takes_the_databases_address_and_runs_its_server() -> None:
    init = render_init(_plan())
    assert "ip address add 10.0.1.7/32 dev eth0" in init
    assert "/usr/sbin/mysqld" in init
    assert f"--defaults-file=/data/databases/{NAME}/guest/my.cnf" in init
    assert "MALLOC_ARENA_MAX=2" in init, "as in its container"
    assert "10.0.1.7/32" in render_link_up(_plan())
    assert all(f" {module}" in render_start(_plan()) for module in MODULES)
