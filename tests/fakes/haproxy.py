"""A stand-in for HAProxy, at its runtime socket: it listens, and leads to what it is told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SERVER = re.compile(
    r"^ +server (?P<name>\S+) (?P<address>\S+):(?P<port>\d+)(?P<off> disabled)?$", re.MULTILINE
)
_LISTEN = re.compile(r"^listen (?P<backend>\S+)\n(?P<lines>(?: .*\n?)*)", re.MULTILINE)
_BIND = re.compile(r"^ +bind (?P<address>\S+):(?P<port>\d+)$", re.MULTILINE)
_COLUMNS = "be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_port"


@dataclass
class FakeHaproxy:
    """One process, as its configuration and its runtime API have made it."""

    config: str
    commands: list[str] = field(default_factory=list)
    is_silent: bool = False

    def __post_init__(self) -> None:
        # Address, port, and the bits of its administrative state, by backend and server.
        self._slots: dict[tuple[str, str], list[str | int]] = {}
        self._ports: dict[str, int] = {}
        for proxy in _LISTEN.finditer(self.config):
            bound = _BIND.search(proxy["lines"])
            assert bound is not None, self.config
            self.address = bound["address"]
            self._ports[proxy["backend"]] = int(bound["port"])
            for found in _SERVER.finditer(proxy["lines"]):
                admin = 5 if found["off"] else 0
                place = (proxy["backend"], found["name"])
                self._slots[place] = [found["address"], found["port"], admin]
        assert self._ports, self.config

    @property
    def led_to(self) -> list[str]:
        """The addresses of the servers that it uses, sorted."""
        return sorted(str(one[0]) for one in self._slots.values() if not int(one[2]) & 1)

    @property
    def directions(self) -> dict[int, list[str]]:
        """Where each port that it listens at leads to, as `ADDRESS:PORT`."""
        found: dict[int, list[str]] = {port: [] for port in self._ports.values()}
        for (backend, _), (address, port, admin) in self._slots.items():
            if not int(admin) & 1:
                found[self._ports[backend]].append(f"{address}:{port}")
        return found

    def answer(self, line: str) -> tuple[int, str]:
        """What comes of one line of commands."""
        if self.is_silent:
            return 1, "TimeoutError: timed out"
        said = ""
        for command in line.strip().split(";"):
            self.commands.append(command)
            said += self._carry_out(command.split())
        return 0, said

    def _carry_out(self, words: list[str]) -> str:
        match words:
            case ["show", "servers", "state"]:
                rows = [
                    f"3 {backend} {index} {name} {address} 2 {admin} {port}"
                    for index, ((backend, name), (address, port, admin)) in enumerate(
                        self._slots.items()
                    )
                ]
                return "\n".join(["1", f"# {_COLUMNS}", *rows, "", ""])
            case ["set", "server", place, "addr", address, "port", port]:
                self._slot(place)[:2] = [address, port]
            case ["set", "server", place, "state", "ready" | "maint" as state]:
                # That it was disabled in the configuration is said for ever (bit 2).
                admin = int(self._slot(place)[2])
                self._slot(place)[2] = admin & ~1 if state == "ready" else admin | 1
            case ["set", "server", place, "health", "up"]:
                assert not int(self._slot(place)[2]) & 1, "a server in maintenance has no health"
            case ["shutdown", "sessions", "server", place]:
                assert int(self._slot(place)[2]) & 1, "new sessions would go on to come"
            case _:
                raise AssertionError(f"a command that this HAProxy does not know: {words}")
        return "\n"

    def _slot(self, place: str) -> list[str | int]:
        backend, _, name = place.partition("/")
        return self._slots[backend, name]
