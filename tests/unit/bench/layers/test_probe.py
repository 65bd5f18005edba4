"""What runs on a host during a trial asks daemons wherever their sockets are."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from grampus.bench.layers.probe import exchange


@pytest.mark.parametrize("length", [1, 200])
def test_a_socket_may_have_a_path_of_any_length(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("x" * length)
    place.mkdir()
    monkeypatch.chdir(place)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("control")
        listener.listen()
        with exchange(str(place / "control"), b"status\n"):
            served, _ = listener.accept()
            with served:
                assert served.recv(64) == b"status\n"
    with pytest.raises(FileNotFoundError):
        exchange(str(place / "no" / "control"), b"status\n")
