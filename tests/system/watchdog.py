"""What systemd's watchdog does to a service (`WatchdogSec=`), for a controller beside a test."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable


class Watchdog:
    """Listens to a service that says again and again that it is well."""

    def __init__(self, patience_s: float, when_silent: Callable[[], None]) -> None:
        """`when_silent` is called after `patience_s` without a word, and the wait begins again."""
        self._patience_s = patience_s
        self._when_silent = when_silent
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # In the abstract namespace: the path of a home may be too long for a socket.
        self._address = f"grampus-watchdog-{os.getpid()}-{id(self):x}"
        self._socket.bind(f"\0{self._address}")
        self._socket.settimeout(patience_s)
        self._is_ended = False
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def environment(self) -> dict[str, str]:
        """What systemd gives to the service."""
        return {
            "NOTIFY_SOCKET": f"@{self._address}",
            "WATCHDOG_USEC": str(int(self._patience_s * 1_000_000)),
        }

    def close(self) -> None:
        """Nobody is watched any more."""
        self._is_ended = True
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waker,
        ):
            waker.sendto(b"END", f"\0{self._address}")
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._is_ended:
            try:
                self._socket.recv(4096)
            except TimeoutError:
                self._when_silent()
