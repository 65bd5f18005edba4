"""What the script asks of the OSDs, on an `Ioctx` in memory."""

from __future__ import annotations

import errno
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from grampus.ceph.rbd import HEADER_METADATA


class NotFoundError(Exception):
    errno = 2


class CanceledError(Exception):
    errno = errno.ECANCELED


def unpacked(data: bytes) -> list[str]:
    texts = []
    while data:
        (length,) = struct.unpack_from("<I", data)
        texts.append(data[4 : 4 + length].decode())
        data = data[4 + length :]
    return texts


class Operation:
    def __enter__(self) -> Operation:
        self.calls: list[tuple[str, Any]] = []
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, cls: str, method: str, data: bytes) -> None:
        assert cls == "rbd"
        self.calls.append((method, data))

    def omap_cmp(self, key: str, value: str) -> None:
        self.calls.append(("omap_cmp", (key, value)))


class Context:
    """One pool: an image `shop` whose id is `5a`."""

    def __init__(self) -> None:
        self.metadata = {"old": "1"}

    def execute(self, name: str, cls: str, method: str, data: bytes) -> tuple[int, bytes]:
        assert (cls, method, data) == ("rbd", "get_id", b"")
        if name != "rbd_id.shop":
            raise NotFoundError
        return 0, struct.pack("<I", 2) + b"5a"

    def operate_write_op(self, operation: Operation, name: str) -> None:
        changed = dict(self.metadata)
        assert operation.calls[0] == ("get_object_prefix", b"")
        if name != "rbd_header.5a":
            raise NotFoundError
        for method, data in operation.calls[1:]:
            if method == "omap_cmp":
                key, value = data
                if self.metadata.get(key.removeprefix("metadata_")) != value:
                    raise CanceledError
            elif method == "metadata_set":
                (count,) = struct.unpack_from("<I", data)
                texts = unpacked(data[4:])
                assert len(texts) == 2 * count
                changed |= dict(zip(texts[::2], texts[1::2], strict=True))
            else:
                assert method == "metadata_remove"
                changed.pop(unpacked(data)[0], None)
        self.metadata = changed


@pytest.fixture
def script() -> dict[str, Any]:
    defined: dict[str, Any] = {"rados": SimpleNamespace(WriteOpCtx=Operation, Error=Exception)}
    exec(HEADER_METADATA, defined)  # noqa: S102 - as the host does
    return defined


def test_facts_are_set_and_removed_together(script: dict[str, Any]) -> None:
    context = Context()
    image_id = script["image_id_of"](context, "shop")
    assert image_id == "5a"
    assert script["change_metadata"](context, image_id, {"a": "ä", "b": "{}"}, ["old", "none"])
    assert context.metadata == {"a": "ä", "b": "{}"}


def test_a_former_value_is_compared_as_it_is_changed(script: dict[str, Any]) -> None:
    context = Context()
    assert not script["change_metadata"](context, "5a", {"old": "2"}, former={"old": "0"})
    assert not script["change_metadata"](context, "5a", {"none": "2"}, former={"none": "0"})
    assert context.metadata == {"old": "1"}
    assert script["change_metadata"](context, "5a", {"old": "2"}, former={"old": "1"})
    assert context.metadata == {"old": "2"}


def test_an_image_that_is_gone_gets_no_header(script: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError):
        script["change_metadata"](Context(), "6b", {"a": "1"})
    with pytest.raises(NotFoundError):
        script["image_id_of"](Context(), "other")
