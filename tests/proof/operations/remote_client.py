"""A client of a database on a host of the lab, over the network and TLS, as a program's is.

The database may be the lab's, or that of a site whose hosts are in the lab's network.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from grampus.bench.client import render_sysbench_config
from grampus.databases.model import Endpoint
from tests.system.command_line import CommandLine
from tests.system.lab_machine import LabMachine

READ_TIMEOUT_S = 900.0  # every row of a table of a GiB
# The names, in its working directory, that sysbench 1.0 is compiled with.
_TLS_FILES = {"ca.pem": "cacert.pem", "client-cert.pem": None, "client-key.pem": None}
# The directory of a host, by its name, below which the files of its databases are.
DataOf = Callable[[str], Path]


class RemoteClient:
    """What programs on one host need to reach a database: options with the password, certificates.

    The host is another than the database's, or stays one when the database moves: its address
    goes with it. `operated` is where the database is, if not in the lab; `data_of` finds its files.
    """

    def __init__(
        self,
        machine: LabMachine,
        database: str,
        operated: CommandLine | None = None,
        data_of: DataOf | None = None,
    ) -> None:
        self.machine = machine
        self.database = database
        self.command_line = operated or machine.command_line
        self._data_of = data_of or (lambda host: LabMachine(self.command_line, host).data)
        self.directory = machine.scratch() / f"client-{database}"

    def of(self, database: str) -> RemoteClient:
        """The client of another database, beside this one."""
        return RemoteClient(self.machine, database, self.command_line, self._data_of)

    @property
    def option_file(self) -> Path:
        return self.directory / "client.cnf"

    @property
    def sysbench_config(self) -> Path:
        return self.directory / "sysbench.cnf"

    def refresh(self) -> None:
        """Write all of it anew, as after a rotation."""
        command_line = self.command_line
        shown = command_line.json("db", "show", self.database)
        secrets = command_line.home / "secrets" / command_line.lab / f"{self.database}.cnf"
        options = dict(
            line.split("=", 1) for line in secrets.read_text().splitlines() if "=" in line
        )
        options = {name.strip(): value.strip().strip('"') for name, value in options.items()}
        self.directory.mkdir(exist_ok=True)
        self.directory.chmod(0o700)
        authority = self.directory / "ca.pem"
        _write(authority, Path(options["ssl-ca"]).read_text())
        kept = {name: value for name, value in options.items() if not name.startswith("ssl")}
        lines = [f'{name}="{value}"' for name, value in kept.items()]
        _write(self.option_file, "\n".join(["[client]", *lines, f"ssl-ca={authority}", ""]))
        endpoint = Endpoint(
            address=shown["address"].split(":")[0],
            port=int(options["port"]),
            user=options["user"],
            password=SecretStr(options["password"]),
            daemon="",
            host=shown["host"],
            option_file=str(self.option_file),
        )
        _write(self.sysbench_config, render_sysbench_config(endpoint, tls=True))
        self._copy_certificates(shown["host"])

    def _copy_certificates(self, host: str) -> None:
        found = self._data_of(host) / "databases" / self.database
        for name, renamed in _TLS_FILES.items():
            (source,) = found.rglob(name)
            _write(self.directory / (renamed or name), source.read_text())

    def mysql_argv(self, *options: str) -> list[str]:
        """The flavour's own client on the host."""
        return self.machine.argv("mysql", f"--defaults-file={self.option_file}", *options)

    def sysbench_argv(self, test: str, command: str, *options: str, timeout_s: int) -> list[str]:
        """sysbench's `command` (prepare, run) of one of its tests, such as oltp_update_index."""
        return self.machine.argv(
            # It looks for its TLS files in the working directory and nowhere else.
            *("env", "-C", str(self.directory), "timeout", "--foreground", str(timeout_s)),
            *("sysbench", f"--config-file={self.sysbench_config}", *options),
            *(f"/usr/share/sysbench/{test}.lua", command),
        )

    def rows(self, statement: str) -> list[list[str]]:
        """What a statement answers."""
        options = ("--batch", "--raw", "--skip-column-names", "-e", statement)
        argv = ("mysql", f"--defaults-file={self.option_file}", *options)
        said = self.machine.ok(*argv, timeout_s=READ_TIMEOUT_S)
        return [line.split("\t") for line in said.splitlines()]


def end_client(process: subprocess.Popen[Any]) -> None:
    """End a program that was started by such an argv: `runc exec` passes the signal on to it."""
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _write(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)
