"""Stand-ins at the ports: a machine, its volumes and a cluster, kept in memory.

They do what the real ones do to the world, as far as databases can see it: a server starts only
with its config, certificates, marker and address in place; a client gets in only with the
password that the data directory was initialised with, and if it trusts who signed the certificate
that the server has read.
"""

from __future__ import annotations

import functools
import io
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from grampus.core.errors import GrampusError
from grampus.core.streams import ByteReader
from grampus.databases.accounts import ACCOUNTS_SQL
from grampus.databases.application_support import OBSERVE_SQL
from grampus.databases.clones.copied_files import COPY_FILES
from grampus.databases.copied_server import LOOK_SQL
from grampus.databases.endpoints.haproxy_daemon import HAPROXY
from grampus.databases.instance import AWAIT_LISTENING
from grampus.databases.layout import VOLUME_IN_DAEMON
from grampus.databases.readiness import OPEN_PIPE, READY_SQL
from grampus.databases.stopping import DISMISS, HOLD
from grampus.databases.tls.certificate_steps import render_reload_sql
from grampus.databases.upgrades.upgrade_steps import SLOW_SHUTDOWN
from grampus.hosts.port import CommandResult, DaemonSpec
from tests.fakes.client_words import DEFAULTS_ON_STDIN, is_admin_client, with_statement
from tests.fakes.haproxy import FakeHaproxy
from tests.fakes.hosts import FakeDaemon, FakeFile, FakeHost, is_below
from tests.fakes.interruption import Fuse
from tests.fakes.mysql_accounts import accounts_of, answer, are_up_to_date
from tests.fakes.mysql_roles import answer_on_roles, refusal, roles_of
from tests.fakes.mysql_tables import Tables
from tests.fakes.pools_and_images import OLD_IMAGE

_CHANGES = ("CREATE", "ALTER", "DROP", "GRANT", "REVOKE", "SET DEFAULT ROLE")
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
OPENED_BY = "opened-by"  # of a data directory: the last version that served it, where that counts
A_PIPE = "a named pipe"
MEMINFO = PurePosixPath("/proc/meminfo")
_RELOADS = {render_reload_sql("mysql"), render_reload_sql("mariadb")}


@dataclass
class MysqlDaemon(FakeDaemon):
    """A server, or the process in front of servers."""

    is_offline: bool = False  # it lets nobody in but the administrator
    shown: str = ""  # the certificate that it has read
    proxy: FakeHaproxy | None = None
    super_read_only: bool | None = None  # as a statement set it; None: as in its option file
    waits_at: PurePosixPath | None = None  # the pipe that is its init file: it lets nobody in
    is_stuck: bool = False  # in its recovery, for ever

    def is_trusted_by(self, authorities: str) -> bool:
        """Whether who trusts these authorities takes the server for what it is."""
        return bool(self.shown) and _signer(self.shown) in authorities


class MysqlHost(FakeHost):
    """A host whose daemons are MySQL servers and haproxy."""

    def __init__(self, name: str, fuse: Fuse) -> None:
        super().__init__(name, fuse=fuse)
        self.put(MEMINFO, "MemTotal:       25276516 kB\nMemFree: 1 kB\n")
        self.directories: set[PurePosixPath] = set()
        self.daemons: dict[str, MysqlDaemon] = {}
        self.left_bundles: set[str] = set()  # of daemons that a crash has ended
        self.dismissed: list[bool] = []  # whether clients were sent away, for each stop
        self.held = 0  # servers that were held, to be killed
        self.is_table_held = False  # by a session that lets none be closed
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
        self.greetings: dict[
            str, str
        ] = {}  # what a connection gets at an address, as seen from here
        self.reset: list[str] = []  # places whose connections were reset
        self.answering: set[str] = set()  # addresses where somebody listens, as seen from here
        self.busy_ports: set[int] = set()  # at which other programs of the host listen
        self.needed_pool_bytes = 0  # for a recovery, until one has ended
        # What a copy of files tells: bytes in use where they are, and where they go.
        self.copied: list[tuple[int, int]] = []
        self.redo_log_bytes = 0
        self.closed: list[str] = []  # places whose listening sockets were closed
        self._certificates = 0

    def run(
        self, argv: Sequence[str], *, stdin: str | None = None, **options: Any
    ) -> CommandResult:
        argv, stdin = with_statement(argv, stdin)
        return super().run(argv, stdin=stdin, **options)

    def play(self, argv: list[str], stdin: str | None, daemon: str | None) -> tuple[int, str]:
        if daemon is not None:
            if daemon not in self.daemons and daemon not in self.left_bundles:
                raise GrampusError(f"The daemon {daemon} is not there.", code="daemon-absent")
            return self._play_inside(argv, stdin or "", self.daemons.get(daemon))
        if argv[0] == "getconf":
            return 0, "2\n"
        commands = [argv]
        if argv[:2] == ["sh", "-ec"]:  # as `in_one_shell` makes it
            commands = _commands_of(argv[2])
        for command in commands:
            with self.changing():
                code, text = self._command(command)
        return code, text

    def _play_inside(
        self, argv: list[str], stdin: str, daemon: MysqlDaemon | None
    ) -> tuple[int, str]:
        if DISMISS in argv:
            return self._shut_down(stdin, daemon)
        if HOLD in argv:
            return self._hold(stdin, daemon)
        if daemon is not None and (daemon.waits_at is not None or daemon.is_stuck):
            return 1, "ERROR 2003 (HY000): Can't connect to MySQL server (110)"
        if is_admin_client(argv, "secrets"):
            return self._secret_statements(stdin, daemon)
        if argv[-2:] == ["--execute", "DO 0"]:  # as `identity` tries a login
            return self._login(stdin, daemon)
        if argv[0] == "python3":  # as `endpoint_work` asks it
            return self._ask_haproxy(stdin, daemon)
        if argv[-1] in _RELOADS:
            return self._reload(daemon)
        if argv[-1] in READY_SQL.values():
            return self._ready(stdin, daemon)
        if argv[-1] == ACCOUNTS_SQL:
            return self._accounts(daemon)
        if argv[-1] == LOOK_SQL:
            looks = (OBSERVE_SQL, ACCOUNTS_SQL)
            answers = [self._play_inside([*argv[:-1], sql], stdin, daemon) for sql in looks]
            refused = [answer for answer in answers if answer[0] != 0]
            return refused[0] if refused else (0, "".join(text for _, text in answers))
        if self.refusal and DEFAULTS_ON_STDIN in argv:
            return 1, self.refusal
        found = self._tables_answer(argv, daemon)
        if found is not None:
            return found
        client = self._administrator if DEFAULTS_ON_STDIN in argv else self._client
        return client(argv, daemon)

    def start(self, spec: DaemonSpec) -> MysqlDaemon:
        daemon = self.daemons[spec.name] = MysqlDaemon(spec)
        if HAPROXY in spec.argv:
            self._begin_haproxy(daemon)
            return daemon
        if spec.argv[0] != "/bin/sh":  # whatever becomes of who started it
            daemon.shown = self._readable_certificate(daemon)
        self.fuse.burn()
        if spec.argv[0] == "/bin/sh":
            self._initialise(daemon)
        else:
            self._serve(daemon)
        return daemon

    def stop(self, name: str, *, kill: bool) -> None:
        self.left_bundles.discard(name)

    def _begin_haproxy(self, daemon: MysqlDaemon) -> None:
        daemon.proxy = FakeHaproxy(self.files[PurePosixPath(daemon.spec.argv[-1])].content)
        if daemon.proxy.address not in {*self.addresses, self.address}:
            daemon.state, daemon.log = "stopped", "[ALERT] cannot bind socket"

    def _ask_haproxy(self, stdin: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.proxy is None or daemon.state != "running":
            return 255, "no such container"
        with self.changing():
            return daemon.proxy.answer(stdin)

    def crash(self) -> None:
        """As a power cut and a boot: daemons and further addresses are gone, files stay."""
        self.left_bundles |= self.daemons.keys()
        self.daemons.clear()
        self.addresses.clear()

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
            case "python3" if argv[2] == AWAIT_LISTENING:
                self.silent_looks -= 1
                is_stuck = any(daemon.is_stuck for daemon in self.daemons.values())
                return int(self.silent_looks >= 0 or is_stuck), ""
            case "python3" if argv[2] == OPEN_PIPE:
                return self._open_pipe(PurePosixPath(argv[3])), ""
            case "du":
                return 0, f"{self.redo_log_bytes}\t{argv[-1]}\n"
            case "mkfifo":
                self.files[PurePosixPath(argv[-1])] = FakeFile(A_PIPE)
            case "python3":  # as `probe_argv` asks several places at once
                return 0, "\n".join(f"{one} {self._answer_at(one)}" for one in argv[6:])
            case "ss" if "--listening" in argv:
                self.closed.append(argv[-1])
            case "ss":  # as the connections of a host that is left are reset
                self.reset.append(argv[-1])
            case "cat":  # as `observe_listening_ports` lists sockets
                return 0, "".join(map(_listening, sorted(self._ports_in_use())))
            case "true":  # as a host is woken
                pass
            case "test" if argv[1] == "-p":
                return int(PurePosixPath(argv[2]) not in self.files), ""
            case "test":
                return int(self.lacks_haproxy), ""
            case "openssl" if "subjectAltName" in argv:
                return 0, self.files[PurePosixPath(argv[-1])].content
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

    @contextmanager
    def reading(self, argv: Sequence[str]) -> Iterator[ByteReader]:
        if argv[0] == "cat":
            yield io.BytesIO(self.files[PurePosixPath(argv[1])].content.encode())
            return
        assert argv[2] == COPY_FILES, argv
        self.require_up()
        with self.changing():
            self._copy(PurePosixPath(argv[-2]), PurePosixPath(argv[-1]))
        yield io.BytesIO(b"".join(b"%20d %20d\n" % used for used in self.copied))

    def _copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        copied = {
            target / path.relative_to(source): replace(file)
            for path, file in self.below(source).items()
        }
        self.files.update(copied)

    def _open_pipe(self, pipe: PurePosixPath) -> int:
        if pipe not in self.files:
            return 0
        readers = [
            daemon
            for daemon in self.daemons.values()
            if isinstance(daemon, MysqlDaemon) and daemon.waits_at == pipe
        ]
        if not any(reader.state == "running" for reader in readers):
            return 1
        for reader in readers:
            reader.waits_at = None
        del self.files[pipe]
        return 0

    def _answer_at(self, place: str) -> str:
        address = place.partition(":")[0]
        known = "listens" if address in self.answering else "silent"
        return self.greetings.get(address, known)

    def _make_certificate(self, argv: Sequence[str]) -> None:
        values = {option: PurePosixPath(value) for option, value in pairwise(argv)}
        self._certificates += 1
        mark = f"{self.name}#{self._certificates};"
        signer = mark if "-CA" not in values else _signer(self.files[values["-CA"]].content)
        names = ""
        if "server" in argv:
            names = _option(self.files[values["-config"]].content, "subjectAltName")
            names = names.replace("IP:", "IP Address:") + "\n"
        text = f"{BEGIN}\n{mark} signed by {signer}\n{names}{END}\n"
        self.files[values["-out"]] = FakeFile(text)
        self.files[values["-keyout"]] = FakeFile(f"key of {mark}")

    def _reload(self, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        if self.reload_failure:
            return 1, self.reload_failure
        with self.changing():
            shown = self._readable_certificate(daemon)
            daemon.shown = shown or daemon.shown
        return (0, "") if shown else (1, "ERROR 3888 (HY000): Failed to set up SSL")

    def _readable_certificate(self, daemon: MysqlDaemon) -> str:
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
        place = f"{path}/"
        self.directories = {known for known in self.directories if not is_below(known, place)}

    def _move(self, source: PurePosixPath, target: PurePosixPath) -> None:
        for path, file in self.below(source).items():
            self.files[target / path.relative_to(source)] = file
            del self.files[path]
        place = f"{source}/"
        below = {known for known in self.directories if is_below(known, place)}
        self.directories -= below
        self.directories |= {target, *(target / known.relative_to(source) for known in below)}

    def _initialise(self, daemon: MysqlDaemon) -> None:
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

    def _serve(self, daemon: MysqlDaemon) -> None:
        volume, directory = _binds(daemon.spec)
        config = self.files[directory / "my.cnf"].content
        address = _option(config, "bind_address").partition(",")[0]
        daemon.shown = self._readable_certificate(daemon)
        missing = [
            what
            for what, there in {
                "marker": volume / "initialised" in self.files,
                "address": address in self.addresses
                or (address == self.address and self._is_port_free(daemon, config))
                or _is_unreachable(daemon),
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
        if self.needed_pool_bytes > _pool_bytes(config, daemon.spec.argv):
            daemon.is_stuck = True
            daemon.log = "[Warning] [MY-011959] [InnoDB] Difficult (5000 search iterations)!"
            return
        self.needed_pool_bytes = 0
        daemon.log = daemon.log or "[System] [MY-010931] [Server] ready for connections."
        for option in daemon.spec.argv:
            if option.startswith("--init-file="):  # it runs before anybody is let in
                self._run_init_file(daemon, PurePosixPath(option.partition("=")[2]))

    def _is_port_free(self, daemon: MysqlDaemon, config: str) -> bool:
        """Whether nobody else listens at the ports of a server at the host's own address."""
        return not _ports_of(config) & self._ports_in_use(beside=daemon)

    def _ports_in_use(self, *, beside: MysqlDaemon | None = None) -> set[int]:
        """Those at the host's own address."""
        found = set(self.busy_ports)
        for daemon in self.daemons.values():
            if daemon is beside or daemon.state != "running" or daemon.proxy is not None:
                continue
            config = self.files.get(_binds(daemon.spec)[1] / "my.cnf", FakeFile("")).content
            if f"bind_address = {self.address}" in config:
                found |= _ports_of(config)
        return found

    def _run_init_file(self, daemon: MysqlDaemon, path: PurePosixPath) -> None:
        """A statement that fails stops neither the file nor the server."""
        if self.files[path].content == A_PIPE:
            daemon.waits_at = path
            return
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

    def _login(self, options: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        content = self.files[_binds(daemon.spec)[0] / "data" / "accounts"].content
        known = accounts_of(content).get(_option(options, "user"))
        if known is None or not known.takes(_option(options, "password")):
            return 1, "ERROR 1045 (28000): Access denied"
        return 0, ""

    def _ready(self, options: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        code, text = self._login(options, daemon)
        if code or daemon is None:
            return code, text
        return 0, f"{_version(daemon)} from somewhere\t{int(daemon.is_offline)}\n"

    def _shut_down(self, options: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        self.fuse.burn()
        has_volume = any(b.target == str(VOLUME_IN_DAEMON) for b in daemon.spec.binds)
        code, text = self._login(options, daemon) if has_volume else (1, "not a server")
        self.dismissed.append(code == 0)
        daemon.state = "stopped"  # told so whatever the client said
        self.fuse.burn()
        return code, text

    def _hold(self, options: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        self.fuse.burn()
        code, text = self._login(options, daemon)
        if code == 0 and self.is_table_held:
            code, text = 1, "ERROR 1205 (HY000): Lock wait timeout exceeded"
        if code != 0:
            return code, text
        self.held += 1
        daemon.is_offline = True
        state, daemon.state = daemon.state, "stopped"  # if nobody is left to kill it
        self.fuse.burn()
        daemon.state = state
        return code, text

    def _tables(self, volume: PurePosixPath) -> Tables:
        return Tables(self.files, volume, FakeFile, self.fuse.burn, self.zones_failure)

    def _tables_answer(
        self, argv: Sequence[str], daemon: MysqlDaemon | None
    ) -> tuple[int, str] | None:
        if daemon is None or daemon.state != "running":
            return None
        if all(bind.target != str(VOLUME_IN_DAEMON) for bind in daemon.spec.binds):
            return None  # not a server
        return self._tables(_binds(daemon.spec)[0]).answer(argv, daemon, _version(daemon))

    def _administrator(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        if argv[-1] == "SELECT VERSION()":
            return 0, _version(daemon)
        if argv[-1] == SLOW_SHUTDOWN:
            self.fuse.burn()
            return 0, ""
        answer = self.admin_answers.get(argv[-1])
        return (0, answer) if answer is not None else (1, "ERROR 1064 (42000): I do not know.")

    def _accounts(self, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        if self.refusal:
            return 1, self.refusal
        file = self.files[_binds(daemon.spec)[0] / "data" / "accounts"]
        return 0, f"{int(are_up_to_date(file.content))}\n"

    def _secret_statements(self, stdin: str, daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        options, _, statements = stdin.partition("\n\n")
        password = _option(options, "password")
        file = self.files[_binds(daemon.spec)[0] / "data" / "accounts"]
        if not accounts_of(file.content)["grampus.admin"].takes(password):
            return 1, "ERROR 1045 (28000): Access denied"
        if any(line.startswith(_CHANGES) for line in statements.splitlines()):
            self.fuse.burn()
            done, error = refusal(file.content, statements)
            file.content += f"\n{done}"
            self.fuse.burn()
            if error:
                return 1, error
        known = answer(statements, accounts_of(file.content))
        return 0, known + answer_on_roles(statements, roles_of(file.content))

    def _client(self, argv: Sequence[str], daemon: MysqlDaemon | None) -> tuple[int, str]:
        if daemon is None or daemon.state != "running":
            return 255, "no such container"
        volume, _ = _binds(daemon.spec)
        options = self.files[PurePosixPath(argv[1].removeprefix("--defaults-file="))]
        accounts = self.files[volume / "data" / "accounts"].content
        user, password = (_option(options.content, name) for name in ("user", "password"))
        authorities = self.files[PurePosixPath(_option(options.content, "ssl-ca"))].content
        if not daemon.is_trusted_by(authorities):
            return 1, "ERROR 2026 (HY000): TLS/SSL error: certificate verify failed"
        if f"IP Address:{_option(options.content, 'host')}" not in re.split(
            r"[,\n] ?", daemon.shown
        ):
            return 1, "ERROR 2026 (HY000): TLS/SSL error: no such name in the certificate"
        known = accounts_of(accounts).get(user)
        if known is None or not known.takes(password):
            return 1, "ERROR 1045 (28000): Access denied"
        if daemon.is_offline:  # said only to who knows a password
            return 1, "ERROR 3032 (HY000): The server is currently in offline mode"
        return 0, f"{_version(daemon)} from somewhere\n"


@functools.cache
def _commands_of(script: str) -> list[list[str]]:
    return [shlex.split(line) for line in script.splitlines()]


def _signer(certificate: str) -> str:
    found = re.search(r"signed by (\S+)", certificate)
    assert found is not None, f"no certificate: {certificate}"
    return found[1]


def _ports_of(config: str) -> set[int]:
    """Where a server listens: for clients, and for Grampus."""
    name = "admin_port" if "admin_port" in config else "extra_port"
    return {int(_option(config, "port")), int(_option(config, name))}


def _listening(port: int) -> str:
    """A line of /proc/net/tcp (proc(5))."""
    return f"   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000\n"


def _version(daemon: MysqlDaemon) -> str:
    return "8.4.3" if daemon.spec.image == OLD_IMAGE else "9.7.4"


def _pool_bytes(config: str, argv: Sequence[str]) -> int:
    """The buffer pool that a server starts with."""
    option = "--innodb-buffer-pool-size="
    given = [word.removeprefix(option) for word in argv if word.startswith(option)]
    return int(given[-1] if given else _option(config, "innodb_buffer_pool_size"))


def _is_unreachable(daemon: MysqlDaemon) -> bool:
    return "--skip-networking" in daemon.spec.argv


def _binds(spec: DaemonSpec) -> tuple[PurePosixPath, PurePosixPath]:
    """The volume's directory on the host, and the instance's."""
    target = str(VOLUME_IN_DAEMON)
    volume = next(PurePosixPath(bind.source) for bind in spec.binds if bind.target == target)
    return volume, PurePosixPath(spec.binds[0].source)


def _option(text: str, name: str) -> str:
    match = re.search(rf"^{name} ?= ?(.*)$", text, re.MULTILINE)
    assert match is not None, f"no option {name}"
    return match[1]


def _own_user(statements: Sequence[str]) -> str:
    """The database's own user, as an init file of `identity` names it."""
    found = re.search(r"ALTER USER '([^']+)'@'%'", "\n".join(statements))
    return found[1] if found else ""
