"""Statements of a database's administrator, which its owner may not give."""

from __future__ import annotations

import json
import subprocess

from tests.system.command_line import CommandLine


def administrator_client(lab: CommandLine, name: str, sql: str) -> tuple[list[str], str]:
    """The command of a client in the container of the database's server (MySQL), and its stdin."""
    secrets = json.loads((lab.home / "secrets" / lab.lab / f"{name}.json").read_text())
    shown = lab.json("db", "show", name)
    options = (
        f"[client]\nuser=grampus.admin\npassword={secrets['admin_password']}\n"
        "socket=/run/mysqld/mysqld.sock\n"
    )
    client = ("mysql", "--defaults-file=/dev/stdin", "-BN", "-e", sql)
    user = f"{shown['server_uid']}:{shown['server_uid']}"
    runc = ("runc", "--root", f"/run/grampus/{lab.tag}/runc", "exec", "--user", user)
    return [*runc, f"{shown['host']}.mysqld-{name}", *client], options


def as_administrator(lab: CommandLine, name: str, sql: str) -> str:
    """What the client prints."""
    argv, options = administrator_client(lab, name, sql)
    finished = subprocess.run(
        argv, input=options, capture_output=True, text=True, timeout=120, check=True
    )
    return finished.stdout


def begin_binary_log(lab: CommandLine, name: str) -> None:
    """The server goes on in a new binary log, as when the one before is full."""
    as_administrator(lab, name, "FLUSH BINARY LOGS")
