"""Volumes of a lab, made, attached and removed through the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine


@contextmanager
def attached_volume(
    lab: CommandLine,
    name: str,
    *options: str,
    host: str = "h1",
    size: str = "512M",
    create: tuple[str, ...] = (),
) -> Iterator[dict[str, Any]]:
    """A new volume, attached to `host` through volumed; gone afterwards. Its document.

    `options` are of `volume attach`, `create` of `volume create`.
    """
    lab.ok("volume", "create", name, "--size", size, *create)
    try:
        yield attach(lab, name, host, *options)
    finally:
        lab.ok("volume", "delete", name, "--yes")


def attach(lab: CommandLine, name: str, host: str, *options: str) -> dict[str, Any]:
    """Attach a volume through volumed; its document."""
    arguments = ("volume", "attach", name, "--host", host, "--driver", "volumed", *options)
    document: dict[str, Any] = lab.json(*arguments)
    assert document["driver"] == "volumed"
    return document


def unmount(machine: LabMachine, volume: dict[str, Any]) -> None:
    """Leave the block device bare, to be overwritten."""
    machine.ok("umount", volume["mount_path"])
