"""What runs beside Ceph's libraries for the state of a site: one connection, many requests.

Started as `python3 -c` with this file's text and the arguments POOL OBJECT. Requests and answers
are those of `hosts/command_server/program.py`, so `CommandServers` asks this program, too; but the
words of a request are the functions below, which use one connection to the cluster.

The state is one object with a log in its omap: `log` (its id), `head` (the number of its last
entry), `base` (the last entry that is only in the snapshot), and the entries. An entry is appended
if `head` is what its writer has read: of two writers, one succeeds. A snapshot has its own object,
because values in an omap are to be small.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import struct
import sys
import zlib
from typing import Any, BinaryIO

ENTITY_VARIABLE = "GRAMPUS_CEPH_ENTITY"
# A cluster that does not serve: who asks waits, asks again, and decides how long.
TIMEOUT_S = "15"
# Of one answer. An entry has the rows of one change, so they are small.
READ_ENTRIES = 500
FAILED, UNANSWERED, DENIED = 1, 75, 77
NOT_PERMITTED = (errno.EPERM, errno.EACCES)


def entry_key(number: int) -> str:
    """Keys are ordered as text."""
    return f"e{number:016d}"


class StateObject:
    """The objects of one site's state. Numbers are decimal text in the omap.

    `rados` is Ceph's library, which only host images have.
    """

    def __init__(self, rados: Any, pool: str, name: str) -> None:
        self.rados = rados
        self._name = name
        self._cluster = rados.Rados(
            conffile="",
            name=os.environ.get(ENTITY_VARIABLE) or "client.admin",
            conf={"client_mount_timeout": TIMEOUT_S, "rados_osd_op_timeout": TIMEOUT_S},
        )
        self._cluster.connect()
        self._pool = self._cluster.open_ioctx(pool)
        # A full pool takes changes of the omap, without which nothing could be deleted from it.
        self._pool.set_osdmap_full_try()

    def read(self, after: str) -> Any:
        """The log's id, base and head, and the entries behind a number; None: there is no log."""
        start = entry_key(int(after))
        with self.rados.ReadOpCtx() as operation:
            heads, _ = self._pool.get_omap_vals_by_keys(operation, ("log", "base", "head"))
            entries, _ = self._pool.get_omap_vals(operation, start, "e", READ_ENTRIES)
            try:
                self._pool.operate_read_op(operation, self._name)
            except self.rados.ObjectNotFound:
                return None
            head = {key: value.decode() for key, value in heads}
            found = [[int(key[1:]), zlib.decompress(value).decode()] for key, value in entries]
        return {
            "log": head["log"],
            "base": int(head["base"]),
            "head": int(head["head"]),
            "entries": found,
        }

    def create(self, log: str) -> Any:
        """Whether an empty log was created; False: there is one."""
        # A pool that is full later takes no new object.
        with self.rados.WriteOpCtx() as operation:
            operation.new(self.rados.LIBRADOS_CREATE_IDEMPOTENT)
            self._pool.operate_write_op(operation, self._name + ".alive")
        with self.rados.WriteOpCtx() as operation:
            operation.new(self.rados.LIBRADOS_CREATE_EXCLUSIVE)
            self._pool.set_omap(operation, ("log", "base", "head"), (log.encode(), b"0", b"0"))
            try:
                self._pool.operate_write_op(operation, self._name)
            except self.rados.ObjectExists:
                return False
        return True

    def append(self, log: str, head: str, text: str) -> Any:
        """Whether the entry was appended; False: another one was, or there is no such log."""
        number = int(head) + 1
        keys = (entry_key(number), "head")
        values = (zlib.compress(text.encode()), str(number).encode())
        with self.rados.WriteOpCtx() as operation:
            operation.omap_cmp("log", log)
            operation.omap_cmp("head", head)
            self._pool.set_omap(operation, keys, values)
            return self._is_done(operation)

    def compact(self, log: str, base: str, number: str, text: str) -> Any:
        """Whether the snapshot `text`, of the state after entry `number`, stands for the log up to
        there; False: another one does."""
        self._pool.write_full(self._snapshot(number), zlib.compress(text.encode()))
        with self.rados.WriteOpCtx() as operation:
            operation.omap_cmp("log", log)
            operation.omap_cmp("base", base)
            self._pool.set_omap(operation, ("base",), (number.encode(),))
            self._pool.remove_omap_range2(operation, entry_key(0), entry_key(int(number) + 1))
            is_done = self._is_done(operation)
        present = self.read(number)
        for one in {base, number} - {str(present["base"])} if present else ():
            self._remove(self._snapshot(one))
        return is_done

    def snapshot(self, number: str) -> Any:
        """The text of a snapshot; None: there is none of that number."""
        name = self._snapshot(number)
        try:
            size, _ = self._pool.stat(name)
            return zlib.decompress(self._pool.read(name, size)).decode()
        except self.rados.ObjectNotFound:
            return None

    def beat(self, holder: str, value: str) -> Any:
        """Note that a holder of locks is alive; without a value, that it has ended."""
        with self.rados.WriteOpCtx() as operation:
            if value:
                self._pool.set_omap(operation, (holder,), (value.encode(),))
            else:
                self._pool.remove_omap_keys(operation, (holder,))
            self._pool.operate_write_op(operation, self._name + ".alive")
        return True

    def beats(self) -> Any:
        """What each holder of locks has noted last."""
        with self.rados.ReadOpCtx() as operation:
            values, _ = self._pool.get_omap_vals(operation, "", "", READ_ENTRIES)
            try:
                self._pool.operate_read_op(operation, self._name + ".alive")
            except self.rados.ObjectNotFound:
                return {}
            return {key: value.decode() for key, value in values}

    def remove(self) -> Any:
        """Nothing is left of the state."""
        present = self.read("0")
        if present is not None and present["base"]:
            self._remove(self._snapshot(str(present["base"])))
        self._remove(self._name + ".alive")
        self._remove(self._name)
        return True

    def _is_done(self, operation: Any) -> bool:
        try:
            self._pool.operate_write_op(operation, self._name)
        except self.rados.ObjectNotFound:
            return False
        except self.rados.Error as error:
            if error.errno == errno.ECANCELED:  # a comparison was false
                return False
            raise
        return True

    def _snapshot(self, number: str) -> str:
        return f"{self._name}.snapshot.{number}"

    def _remove(self, name: str) -> None:
        with contextlib.suppress(self.rados.ObjectNotFound):
            self._pool.remove_object(name)


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes. Raises EOFError at the end of the stream."""
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def answer(stream: BinaryIO, code: int, stdout: bytes, stderr: bytes) -> None:
    """Write an answer."""
    stream.write(struct.pack(">III", code, len(stdout), len(stderr)) + stdout + stderr)
    stream.flush()


def parse(request: bytes) -> list[str]:
    """The words of a request, and its input as the last one if it has any."""
    _, has_stdin, count = struct.unpack_from(">dBI", request)
    place, words = struct.calcsize(">dBI"), []
    for _ in range(count):
        (size,) = struct.unpack_from(">I", request, place)
        words.append(request[place + 4 : place + 4 + size].decode())
        place += 4 + size
    return [*words, request[place:].decode()] if has_stdin else words


def serve(state: StateObject, request: bytes) -> tuple[int, bytes, bytes]:
    """Do what a request says: (code, stdout, stderr)."""
    word, *arguments = parse(request)
    rados = state.rados
    try:
        found = getattr(state, word)(*arguments)
    except rados.TimedOut as error:
        return UNANSWERED, b"", str(error).encode()
    except rados.Error as error:
        code = DENIED if error.errno in NOT_PERMITTED else FAILED
        return code, b"", str(error).encode()
    return 0, json.dumps(found).encode(), b""


def main() -> None:
    """Serve until stdin ends."""
    rados = importlib.import_module("rados")
    state = None
    while True:
        try:
            (size,) = struct.unpack(">I", read_exactly(sys.stdin.buffer, 4))
            if not size:  # somebody still waits for the answer that was given
                continue
            request = read_exactly(sys.stdin.buffer, size)
        except EOFError:
            return
        try:
            state = state or StateObject(rados, sys.argv[1], sys.argv[2])
        except (rados.Error, OSError) as error:
            code = DENIED if error.errno in NOT_PERMITTED else UNANSWERED
            answer(sys.stdout.buffer, code, b"", str(error).encode())
            continue
        answer(sys.stdout.buffer, *serve(state, request))


if __name__ == "__main__":
    main()
