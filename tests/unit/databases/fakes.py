"""Stand-ins at the ports: a machine, its volumes and a cluster, kept in memory.

They do what the real ones do to the world, as far as databases can see it: a server starts only
with its config, certificates, marker and address in place; a client gets in only with the
password that the data directory was initialised with, and if it trusts who signed the certificate
that the server has read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

from grampus.core.errors import GrampusError, NotFoundError
from grampus.databases.accounts import ACCOUNTS_SQL
from grampus.databases.endpoints.endpoint_work import HAPROXY
from grampus.databases.layout import VOLUME_IN_DAEMON
from grampus.databases.readiness import READY_SQL
from grampus.databases.stopping import DISMISS
from grampus.databases.tls.certificate_steps import render_reload_sql
from grampus.databases.upgrades.upgrade_steps import SLOW_SHUTDOWN
from grampus.hosts.port import (
    CommandFailedError,
    CommandResult,
    DaemonSpec,
    DaemonState,
    DaemonStatus,
    Host,
    HostUnreachableError,
    Limits,
    RunningCommand,
    Usage,
)
from tests.fakes.interruption import Fuse

from .client_words import DEFAULTS_ON_STDIN, is_admin_client, with_statement
from .fake_accounts import accounts_of, answer, are_up_to_date
from .fake_cluster import OLD_IMAGE as OLD_IMAGE
from .fake_cluster import FakeCluster as FakeCluster
from .fake_cluster import FakeImages as FakeImages
from .fake_haproxy import FakeHaproxy
from .fake_roles import answer_on_roles, refusal, roles_of
from .fake_support import Tables

_CHANGES = ("CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "SET DEFAULT ROLE")
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
OPENED_BY = "opened-by"  # of a data directory: the last version that served it, where that counts
MEMINFO = PurePosixPath("/proc/meminfo")
_RELOADS = {render_reload_sql("mysql"), render_reload_sql("mariadb")}


@dataclass
class FakeFile:
    content: str
    mode: int = 0o644
    uid: int = 0


@dataclass
class FakeDaemon:
    spec: DaemonSpec
    state: DaemonState
    log: str = ""
    out_of_memory: int = 0  # processes that its memory limit ended
    is_offline: bool = False  # it lets nobody in but the administrator
    shown: str = ""  # the certificate that it has read
    proxy: FakeHaproxy | None = None
    super_read_only: bool | None = None  # as a statement set it; None: as in its option file

    def is_trusted_by(self, authorities: str) -> bool:
        """Whether who trusts these authorities takes the server for what it is."""
        return bool(self.shown) and _signer(self.shown) in authorities


class FakeHost:
    """A `Host` in memory."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        self._name = name
        self._fuse = fuse
        self.up = True
        self.files: dict[PurePosixPath, FakeFile] = {
            MEMINFO: FakeFile("MemTotal:       25276516 kB\nMemFree: 1 kB\n")
        }
        self.directories: set[PurePosixPath] = set()
        self.daemons: dict[str, FakeDaemon] = {}
        self.left_bundles: set[str] = set()  # of daemons that a crash has ended
        self.dismissed: list[bool] = []  # whether clients were sent away, for each stop
        self.addresses: set[str] = set()
        self.commands: list[tuple[str, ...]] = []
        self.init_failure = ""  # what the initialisation says instead of succeeding
        self.serve_failure = ""
        self.refusal = ""  # what its servers say to each statement of their administrator
        self.silent_looks = 0  # how often nobody is seen to listen
        self.upgrade_failure = ""  # what a server says that ends half-way through an upgrade
        self.failing_statement = ""  # a server passes over the statements of an init file with it
        self.admin_answers: dict[str, str] = {}  # what the administrator reads, by statement
        self.certificates_end = "2035-12-30 00:00:00Z"
        self.reload_failure = ""  # what a server says that keeps its certificate
        self.lacks_haproxy = False
        self.zones_failure = ""  # what the client says that loads time zones
        self.answering: set[str] = set()  # addresses where somebody listens, as seen from here
        self._certificates = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> str:
        return "10.0.0.1"

    @property
    def data_dir(self) -> PurePosixPath:
        return PurePosixPath("/data")

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout_s: float = 60.0,
        check: bool = True,
        daemon: str | None = None,
    ) -> CommandResult:
        self._require_up()
        argv, stdin = with_statement(argv, stdin)
        self.commands.append(tuple(argv))
        if daemon is not None:
            if daemon not in self.daemons and daemon not in self.left_bundles:
                raise GrampusError(f"The daemon {daemon} is not there.", code="daemon-absent")
            if DISMISS in argv:
                code, text = self._shut_down(stdin or "", self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if is_admin_client(argv, "secrets"):
                code, text = self._secret_statements(stdin or "", self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if list(argv[-2:]) == ["--execute", "DO 0"]:  # as `identity` tries a login
                code, text = self._login(stdin or "", self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if argv[0] == "python3":  # as `endpoint_work` asks it
                code, text = self._ask_haproxy(stdin or "", self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if argv[-1] in _RELOADS:
                code, text = self._reload(self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if argv[-1] in READY_SQL.values():
                code, text = self._ready(stdin or "", self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if argv[-1] == ACCOUNTS_SQL:
                code, text = self._accounts(self.daemons.get(daemon))
                return self._answer(argv, code, text, check=check)
            if self.refusal and DEFAULTS_ON_STDIN in argv:
                return self._answer(argv, 1, self.refusal, check=check)
            found = self._tables_answer(argv, self.daemons.get(daemon))
            if found is not None:
                return self._answer(argv, *found, check=check)
            client = self._administrator if DEFAULTS_ON_STDIN in argv else self._client
            code, text = client(argv, self.daemons.get(daemon))
            return self._answer(argv, code, text, check=check)
        if argv[0] == "getconf":
            return self._answer(argv, 0, "2\n", check=check)
        commands = [argv]
        if argv[:2] == ["sh", "-ec"]:  # as `in_one_shell` makes it
            commands = [shlex.split(line) for line in argv[2].splitlines()]
        for command in commands:
            self._fuse.burn()
            code, text = self._command(command)
            self._fuse.burn()
        return self._answer(argv, code, text, check=check)

    def spawn(self, argv: Sequence[str], *, stdin: str | None = None) -> RunningCommand:
        raise AssertionError("this part never does that")

    def terminal_argv(self, argv: Sequence[str], *, daemon: str, tty: bool) -> list[str]:
        raise AssertionError("this part never does that")

    def write_file(
        self, path: PurePosixPath, content: str, *, mode: int = 0o644, uid: int = 0, gid: int = 0
    ) -> None:
        self._require_up()
        self._fuse.burn()
        self.files[path] = FakeFile(content, mode, uid)
        self._fuse.burn()

    def read_file(self, path: PurePosixPath) -> str | None:
        found = self.files.get(path)
        return None if found is None else found.content

    def ensure_daemon(self, spec: DaemonSpec) -> None:
        self._require_up()
        if spec.name in self.daemons and self.daemons[spec.name].state == "running":
            return
        self._fuse.burn()
        daemon = self.daemons[spec.name] = FakeDaemon(spec, "running")
        if HAPROXY in spec.argv:
            self._begin_haproxy(daemon)
            return
        if spec.argv[0] != "/bin/sh":  # whatever becomes of who started it
            daemon.shown = self._readable_certificate(daemon)
        self._fuse.burn()
        if spec.argv[0] == "/bin/sh":
            self._initialise(self.daemons[spec.name])
        else:
            self._serve(self.daemons[spec.name])
        self._fuse.burn()

    def _begin_haproxy(self, daemon: FakeDaemon) -> None:
        daemon.proxy = FakeHaproxy(self.files[PurePosixPath(daemon.spec.argv[-1])].content)
        if daemon.proxy.address not in self.addresses:
            daemon.state, daemon.log = "stopped", "[ALERT] cannot bind socket"
        self._fuse.burn()

    def _ask_haproxy(self, stdin: str, daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.proxy is None or daemon.state != "running":
            return 255, "no such container"
        self._fuse.burn()
        answer = daemon.proxy.answer(stdin)
        self._fuse.burn()
        return answer

    def set_limits(self, name: str, limits: Limits) -> None:
        self._require_up()
        self._fuse.burn()
        self.daemons[name].spec = replace(self.daemons[name].spec, limits=limits)
        self._fuse.burn()

    def ensure_daemon_absent(self, name: str, *, kill: bool = False) -> None:
        self._require_up()
        self._fuse.burn()
        self.daemons.pop(name, None)
        self.left_bundles.discard(name)
        self._fuse.burn()

    def observe_daemons(self) -> list[DaemonStatus]:
        self._require_up()
        return [
            DaemonStatus(
                name,
                daemon.state,
                out_of_memory=daemon.out_of_memory,
                uid=daemon.spec.uid if daemon.state == "running" else None,
            )
            for name, daemon in sorted(self.daemons.items())
        ]

    def observe_daemon(self, name: str) -> DaemonStatus | None:
        return next((one for one in self.observe_daemons() if one.name == name), None)

    def daemon_log(self, name: str, *, last_lines: int = 20) -> str:
        return self.daemons[name].log

    def observe_usage(self) -> dict[str, Usage]:
        return {}

    def ensure_address(self, address: str) -> None:
        self._require_up()
        self._fuse.burn()
        self.addresses.add(address)
        self._fuse.burn()

    def ensure_address_absent(self, address: str) -> None:
        self._require_up()
        self._fuse.burn()
        self.addresses.discard(address)
        self._fuse.burn()

    def crash(self) -> None:
        """As a power cut and a boot: daemons and further addresses are gone, files stay."""
        self.left_bundles |= self.daemons.keys()
        self.daemons.clear()
        self.addresses.clear()

    def below(self, directory: PurePosixPath) -> dict[PurePosixPath, FakeFile]:
        return {path: file for path, file in self.files.items() if path.is_relative_to(directory)}

    def _require_up(self) -> None:
        if not self.up:
            raise HostUnreachableError(f"The host {self.name} is down.", "Start it.")

    def _answer(self, argv: Sequence[str], code: int, text: str, *, check: bool) -> CommandResult:
        result = CommandResult(tuple(argv), code, text if code == 0 else "", text if code else "")
        if check and code:
            raise CommandFailedError(self.name, result)
        return result

    def _command(self, argv: Sequence[str]) -> tuple[int, str]:
        match argv[0]:
            case "install":
                self.directories.add(PurePosixPath(argv[-1]))
            case "rm":
                for name in argv[2:]:
                    self._remove(PurePosixPath(name))
            case "mv":
                self._move(PurePosixPath(argv[-2]), PurePosixPath(argv[-1]))
            case "chown":
                for file in self.below(PurePosixPath(argv[-1])).values():
                    file.uid = int(argv[-2].split(":")[0])
            case "chmod":
                for file in self.below(PurePosixPath(argv[-1])).values():
                    file.mode &= 0o700
            case "timeout":  # as `observe_listening_from` asks whether somebody listens there
                return int(argv[-2] not in self.answering), ""
            case "test":
                return int(self.lacks_haproxy), ""
            case "grep":
                self.silent_looks -= 1
                return int(self.silent_looks >= 0), ""
            case "openssl" if argv[1] == "x509":
                return 0, f"notAfter={self.certificates_end}\n"
            case "openssl":
                self._make_certificate(argv)
            case "find":  # as `observe_logs` lists binary logs, of which no server here has any
                assert all(name.endswith("/binlog") for name in argv[1 : argv.index("-maxdepth")])
            case "sync":
                assert all(PurePosixPath(name) in self.files for name in argv[1:])
            case _:
                raise AssertionError(f"a command that no host was told of: {argv}")
        return 0, ""

    def _make_certificate(self, argv: Sequence[str]) -> None:
        values = {option: PurePosixPath(value) for option, value in pairwise(argv)}
        self._certificates += 1
        mark = f"{self.name}#{self._certificates};"
        signer = mark if "-CA" not in values else _signer(self.files[values["-CA"]].content)
        text = f"{BEGIN}\n{mark} signed by {signer}\n{END}\n"
        self.files[values["-out"]] = FakeFile(text)
        self.files[values["-keyout"]] = FakeFile(f"key of {mark}")

    def _reload(self, daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        if self.reload_failure:
            return 1, self.reload_failure
        self._fuse.burn()
        shown = self._readable_certificate(daemon)
        daemon.shown = shown or daemon.shown
        self._fuse.burn()
        return (0, "") if shown else (1, "ERROR 3888 (HY000): Failed to set up SSL")

    def _readable_certificate(self, daemon: FakeDaemon) -> str:
        """The certificate that its server reads, or nothing if that has no key of its own."""
        config = self.files[_binds(daemon.spec)[1] / "my.cnf"].content
        found = [
            self.files.get(PurePosixPath(_option(config, f"ssl_{x}"))) for x in ("cert", "key")
        ]
        certificate, key = ("" if file is None else file.content for file in found)
        mark = certificate.removeprefix(f"{BEGIN}\n").partition(" ")[0]
        return certificate if mark and key == f"key of {mark}" else ""

    def _remove(self, path: PurePosixPath) -> None:
        for file in self.below(path):
            del self.files[file]
        self.directories = {known for known in self.directories if not known.is_relative_to(path)}

    def _move(self, source: PurePosixPath, target: PurePosixPath) -> None:
        for path, file in self.below(source).items():
            self.files[target / path.relative_to(source)] = file
            del self.files[path]
        below = {known for known in self.directories if known.is_relative_to(source)}
        self.directories -= below
        self.directories |= {target, *(target / known.relative_to(source) for known in below)}

    def _initialise(self, daemon: FakeDaemon) -> None:
        volume, directory = _binds(daemon.spec)
        daemon.state = "stopped"
        self.files[volume / "data" / "half"] = FakeFile("")
        if self.init_failure:
            daemon.log = self.init_failure
            return
        accounts = self.files[directory / "accounts.sql"].content
        self.files[volume / "data" / "accounts"] = FakeFile(accounts)
        self.files[volume / "initialised"] = FakeFile("1")
        self._tables(volume).note_first(self.files[PurePosixPath(daemon.spec.argv[-1])].content)

    def _serve(self, daemon: FakeDaemon) -> None:
        volume, directory = _binds(daemon.spec)
        config = self.files[directory / "my.cnf"].content
        address = _option(config, "bind_address").partition(",")[0]
        daemon.shown = self._readable_certificate(daemon)
        missing = [
            what
            for what, there in {
                "marker": volume / "initialised" in self.files,
                "address": address in self.addresses or _is_unreachable(daemon),
                "certificate": daemon.shown,
                "time zone": self._tables(volume).know_zone(config, daemon.spec.argv),
            }.items()
            if not there
        ]
        if missing or self.serve_failure:
            daemon.state = "stopped"
            daemon.log = self.serve_failure or f"[ERROR] no {missing}"
            return
        opened = self.files.get(volume / "data" / OPENED_BY, FakeFile("0"))
        if opened.content > _version(daemon):
            daemon.state = "stopped"
            daemon.log = "[ERROR] Invalid MySQL server downgrade"
            return
        if daemon.spec.image == OLD_IMAGE or opened.content != "0":
            self.files[volume / "data" / OPENED_BY] = FakeFile(_version(daemon))
        if _is_unreachable(daemon) and self.upgrade_failure:
            daemon.state = "stopped"
            daemon.log = self.upgrade_failure
        for option in daemon.spec.argv:
            if option.startswith("--init-file="):  # it runs before anybody is let in
                self._run_init_file(daemon, PurePosixPath(option.partition("=")[2]))

    def _run_init_file(self, daemon: FakeDaemon, path: PurePosixPath) -> None:
        """A statement that fails stops neither the file nor the server."""
        known = self.files[_binds(daemon.spec)[0] / "data" / "accounts"]
        failing = self.failing_statement
        statements = [
            line
            for line in self.files[path].content.splitlines()
            if not failing or failing not in line
        ]
        before = {user: account.password for user, account in accounts_of(known.content).items()}
        known.content = "\n".join([known.content, *statements])
        after = accounts_of(known.content)
        if failing:
            daemon.log = f"[ERROR] [MY-000061] 1290 {failing} failed"
        if "--offline-mode=ON" in daemon.spec.argv:  # the last statement may end that
            # Stored ones are salted: one that is given again differs too.
            given = "".join(s for s in statements if re.match("ALTER USER.*IDENTIFIED BY", s))
            kept = [user for user in after if user in before and f"'{user}'@" not in given]
            second = [user for user, account in after.items() if account.former is not None]
            asked = self.files[path].content.splitlines()
            own = {"root", "grampus.admin", _own_user(asked)}
            daemon.is_offline = bool(own.intersection([*kept, *second]))

    def _login(self, options: str, daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        content = self.files[_binds(daemon.spec)[0] / "data" / "accounts"].content
        known = accounts_of(content).get(_option(options, "user"))
        if known is None or not known.takes(_option(options, "password")):
            return 1, "ERROR 1045 (28000): Access denied"
        return 0, ""

    def _ready(self, options: str, daemon: FakeDaemon | None) -> tuple[int, str]:
        code, text = self._login(options, daemon)
        if code or daemon is None:
            return code, text
        return 0, f"{_version(daemon)} from somewhere\t{int(daemon.is_offline)}\n"

    def _shut_down(self, options: str, daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        self._fuse.burn()
        has_volume = any(b.target == str(VOLUME_IN_DAEMON) for b in daemon.spec.binds)
        code, text = self._login(options, daemon) if has_volume else (1, "not a server")
        self.dismissed.append(code == 0)
        daemon.state = "stopped"  # told so whatever the client said
        self._fuse.burn()
        return code, text

    def _tables(self, volume: PurePosixPath) -> Tables:
        return Tables(self.files, volume, FakeFile, self._fuse.burn, self.zones_failure)

    def _tables_answer(
        self, argv: Sequence[str], daemon: FakeDaemon | None
    ) -> tuple[int, str] | None:
        if daemon is None or daemon.state != "running":
            return None
        if all(bind.target != str(VOLUME_IN_DAEMON) for bind in daemon.spec.binds):
            return None  # not a server
        return self._tables(_binds(daemon.spec)[0]).answer(argv, daemon, _version(daemon))

    def _administrator(self, argv: Sequence[str], daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        if argv[-1] == "SELECT VERSION()":
            return 0, _version(daemon)
        if argv[-1] == SLOW_SHUTDOWN:
            self._fuse.burn()
            return 0, ""
        answer = self.admin_answers.get(argv[-1])
        return (0, answer) if answer is not None else (1, "ERROR 1064 (42000): I do not know.")

    def _accounts(self, daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        if self.refusal:
            return 1, self.refusal
        file = self.files[_binds(daemon.spec)[0] / "data" / "accounts"]
        return 0, f"{int(are_up_to_date(file.content))}\n"

    def _secret_statements(self, stdin: str, daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        options, _, statements = stdin.partition("\n\n")
        password = _option(options, "password")
        file = self.files[_binds(daemon.spec)[0] / "data" / "accounts"]
        if not accounts_of(file.content)["grampus.admin"].takes(password):
            return 1, "ERROR 1045 (28000): Access denied"
        if any(line.startswith(_CHANGES) for line in statements.splitlines()):
            self._fuse.burn()
            done, error = refusal(file.content, statements)
            file.content += f"\n{done}"
            self._fuse.burn()
            if error:
                return 1, error
        known = answer(statements, accounts_of(file.content))
        return 0, known + answer_on_roles(statements, roles_of(file.content))

    def _client(self, argv: Sequence[str], daemon: FakeDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        volume, _ = _binds(daemon.spec)
        options = self.files[PurePosixPath(argv[1].removeprefix("--defaults-file="))]
        accounts = self.files[volume / "data" / "accounts"].content
        user, password = (_option(options.content, name) for name in ("user", "password"))
        authorities = self.files[PurePosixPath(_option(options.content, "ssl-ca"))].content
        if not daemon.is_trusted_by(authorities):
            return 1, "ERROR 2026 (HY000): TLS/SSL error: certificate verify failed"
        known = accounts_of(accounts).get(user)
        if known is None or not known.takes(password):
            return 1, "ERROR 1045 (28000): Access denied"
        if daemon.is_offline:  # said only to who knows a password
            return 1, "ERROR 3032 (HY000): The server is currently in offline mode"
        return 0, f"{_version(daemon)} from somewhere\n"


def _signer(certificate: str) -> str:
    found = re.search(r"signed by (\S+)", certificate)
    assert found is not None, f"no certificate: {certificate}"
    return found[1]


def _version(daemon: FakeDaemon) -> str:
    return "8.4.3" if daemon.spec.image == OLD_IMAGE else "9.7.4"


def _is_unreachable(daemon: FakeDaemon) -> bool:
    return "--skip-networking" in daemon.spec.argv


def _binds(spec: DaemonSpec) -> tuple[PurePosixPath, PurePosixPath]:
    """The volume's directory on the host, and the instance's."""
    targets = {bind.target: PurePosixPath(bind.source) for bind in spec.binds}
    return targets[str(VOLUME_IN_DAEMON)], PurePosixPath(spec.binds[0].source)


def _option(text: str, name: str) -> str:
    match = re.search(rf"^{name} ?= ?(.*)$", text, re.MULTILINE)
    assert match is not None, f"no option {name}"
    return match[1]


def _own_user(statements: Sequence[str]) -> str:
    """The database's own user, as an init file of `identity` names it."""
    found = re.search(r"ALTER USER '([^']+)'@'%'", "\n".join(statements))
    return found[1] if found else ""


class FakeFleet:
    """A `Fleet` of fake hosts."""

    def __init__(self, hosts: Sequence[FakeHost], addresses: Sequence[str]) -> None:
        self.by_name = {host.name: host for host in hosts}
        self._addresses = tuple(addresses)

    def hosts(self) -> list[Host]:
        return [self.by_name[name] for name in sorted(self.by_name)]

    def host(self, name: str) -> Host:
        if name not in self.by_name:
            raise NotFoundError(f"There is no host named '{name}'.")
        return self.by_name[name]

    def is_reachable(self, name: str) -> bool:
        return self.by_name[name].up

    def reaches_cluster(self, name: str) -> bool:
        return self.is_reachable(name)

    def database_addresses(self) -> Sequence[str]:
        return self._addresses
