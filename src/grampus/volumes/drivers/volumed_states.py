"""The states of all volumeds of a host, asked for by one process there.

A process for each would take seconds of a CPU for a thousand volumes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from grampus.hosts.port import Host
from grampus.volumes.drivers.export import export_file
from grampus.volumes.drivers.port import MapRequest
from grampus.volumes.drivers.volumed import control_socket

# Patience with each; most answer in a millisecond. Threads, since many may hang at once.
_PATIENCE_S = 5.0
_AT_ONCE = 32
# `protocol.rs`: one line each way. Who gives no answer is left out; null: no state in the answer.
# Sockets are reached through their directories' descriptors, as in `socket_path.rs`.
ASK_STATES = """
import json, os, socket, sys
from concurrent.futures import ThreadPoolExecutor
def ask(path):
    directory = None
    try:
        directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(float(sys.argv[1]))
            asked.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
            asked.sendall(b'{"version":1,"command":"status"}\\n')
            answer = json.loads(asked.makefile("rb").readline())
        if answer["version"] == 1 and answer["ok"] is True:
            return path, answer["result"]
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    finally:
        if directory is not None:
            os.close(directory)
    return path, None
with ThreadPoolExecutor(int(sys.argv[2])) as pool:
    print(json.dumps(dict(answer for answer in pool.map(ask, json.load(sys.stdin)) if answer)))
"""


def status_socket(host: Host, request: MapRequest) -> PurePosixPath:
    """Where the volumed of a volume can be asked."""
    return control_socket(export_file(host, request))


def observe_states(host: Host, sockets: Sequence[PurePosixPath]) -> dict[PurePosixPath, Any]:
    """The answers to `status` of those that gave one, by their control sockets.

    None is an answer without a state, of a volumed that lives. Raises GrampusError when the host
    cannot be asked.
    """
    if not sockets:
        return {}
    rounds = 1 + len(sockets) // _AT_ONCE
    result = host.run(
        ["python3", "-c", ASK_STATES, f"{_PATIENCE_S:g}", str(_AT_ONCE)],
        stdin=json.dumps([str(path) for path in sockets]),
        timeout_s=30.0 + _PATIENCE_S * rounds,
    )
    return {PurePosixPath(path): answer for path, answer in json.loads(result.stdout).items()}
