"""The scripts that make images and note records, run with stand-ins for python3-rados and -rbd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grampus.ceph.image_notes import RECORDS_KEY, WRITE_NOTES
from grampus.ceph.rbd import CREATE_IMAGE

KEY = "grampus.identity"
_RADOS = """
import json, os, struct
class Error(Exception): pass
class ObjectNotFound(Error): pass
class WriteOpCtx:
    def __enter__(self):
        self.facts = {}
        return self
    def __exit__(self, *_): pass
    def execute(self, cls, method, data):
        assert cls == "rbd"
        if method == "get_object_prefix": return
        assert method == "metadata_set"
        (count,), at, texts = struct.unpack_from("<I", data), 4, []
        while at < len(data):
            (length,) = struct.unpack_from("<I", data, at)
            texts.append(data[at + 4 : at + 4 + length].decode())
            at += 4 + length
        assert len(texts) == 2 * count
        self.facts.update(zip(texts[::2], texts[1::2]))
class Context:
    def __init__(self): self.namespace = ""
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def set_namespace(self, namespace): self.namespace = namespace
    def execute(self, name, cls, method, data):
        # An image's id is its name here.
        import rbd
        image = name.removeprefix("rbd_id.")
        if rbd.named(self, image) not in rbd.load().get("images", {}): raise ObjectNotFound
        return 0, struct.pack("<I", len(image)) + image.encode()
    def operate_write_op(self, operation, name):
        import rbd
        image = rbd.named(self, name.removeprefix("rbd_header."))
        if image not in rbd.load().get("images", {}): raise ObjectNotFound
        def put(images): images[image].update(operation.facts); return images
        rbd.change("images", put)
class Rados:
    def __init__(self, conffile, name=None, conf=None): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def open_ioctx(self, pool): return Context()
    def mon_command(self, text, data):
        import rbd
        if rbd.load().get("refuses"): return -13, b"", "no"
        rbd.change("asked", lambda asked: [*(asked or []), json.loads(text)])
        return 0, b"", ""
"""
_RBD = """
import json, os
class ImageExists(Exception): pass
class ImageNotFound(Exception): pass
def load(): return json.load(open(os.environ["STANDIN"]))
def change(key, of):
    state = load()
    state[key] = of(state.get(key))
    json.dump(state, open(os.environ["STANDIN"], "w"))
def named(context, name): return f"{context.namespace}/{name}"
class RBD:
    def namespace_create(self, context, namespace):
        if namespace in load().get("namespaces", []): raise ImageExists
        change("namespaces", lambda found: [*(found or []), namespace])
    def create(self, context, name, size):
        if named(context, name) in load().get("images", {}): raise ImageExists
        change("images", lambda found: {**(found or {}), named(context, name): {}})
class Image:
    def __init__(self, context, name, read_only=False):
        assert read_only, "an image that can be written to takes its lock"
        self.given, self.name = name, named(context, name)
        if self.name not in load().get("images", {}): raise ImageNotFound
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def id(self): return self.given
    def metadata_get(self, key): return load()["images"][self.name][key]
"""


class Standins:
    """A cluster in a file, which the scripts change."""

    def __init__(self, directory: Path, **state: Any) -> None:
        self._directory = directory
        self._file = directory / "cluster.json"
        (directory / "rados.py").write_text(_RADOS)
        (directory / "rbd.py").write_text(_RBD)
        self._file.write_text(json.dumps(state))

    def run(
        self, script: str, *arguments: str, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._directory),
            "STANDIN": str(self._file),
        }
        argv = [sys.executable, "-c", script, *arguments]
        return subprocess.run(
            argv, input=stdin, env=environment, capture_output=True, text=True, check=False
        )

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found


@pytest.mark.parametrize(
    ("name", "before", "identity", "code", "after"),
    [
        ("ns/db-shop", {}, "a1", 0, {KEY: "a1"}),
        ("shop", {}, "a1", 0, {KEY: "a1"}),
        ("shop", {}, "", 0, {}),  # as an older release asks
        ("ns/db-shop", {"ns/db-shop": {}}, "a1", 0, {KEY: "a1"}),  # cut off in between
        ("ns/db-shop", {"ns/db-shop": {KEY: "a1"}}, "a1", 0, {KEY: "a1"}),
        ("ns/db-shop", {"ns/db-shop": {KEY: "b2"}}, "a1", 17, {KEY: "b2"}),
        ("shop", {"/shop": {KEY: "a1"}}, "a1", 0, {KEY: "a1"}),
        ("shop", {"/shop": {KEY: "b2"}}, "a1", 17, {KEY: "b2"}),
        ("shop", {"/shop": {}}, "a1", 17, {}),  # somebody made it by hand
        ("shop", {"/shop": {}}, "", 0, {}),
    ],
)
def test_an_image_is_made_with_its_id_and_another_one_is_left(
    tmp_path: Path,
    name: str,
    before: dict[str, Any],
    identity: str,
    code: int,
    after: dict[str, str],
) -> None:
    cluster = Standins(tmp_path, images=before)
    done = cluster.run(CREATE_IMAGE, "databases", name, str(1 << 30), KEY, identity)
    assert done.returncode == code, done.stderr
    (image,) = cluster.state["images"].values()
    assert image == after


def test_records_are_noted_after_the_generation(tmp_path: Path) -> None:
    cluster = Standins(tmp_path, images={"/shop": {}})
    note = {"pool": "databases", "namespace": "", "image": {"name": "shop"}, "text": "records"}
    gone = {**note, "image": {"name": "gone"}}
    arguments = (RECORDS_KEY, "grampus/t/generation", '{"number": 7}')
    done = cluster.run(WRITE_NOTES, *arguments, stdin=json.dumps([note, gone]))
    assert (done.returncode, json.loads(done.stdout)) == (0, [0]), done.stderr
    assert cluster.state["images"] == {"/shop": {RECORDS_KEY: "records"}}
    put = {"prefix": "config-key set", "key": "grampus/t/generation", "val": '{"number": 7}'}
    assert cluster.state["asked"] == [put]


def test_nothing_is_noted_when_the_generation_cannot_be(tmp_path: Path) -> None:
    cluster = Standins(tmp_path, images={"/shop": {}}, refuses=True)
    note = {"pool": "databases", "namespace": "", "image": {"name": "shop"}, "text": "records"}
    arguments = (RECORDS_KEY, "grampus/t/generation", "{}")
    done = cluster.run(WRITE_NOTES, *arguments, stdin=json.dumps([note]))
    assert done.returncode == 1
    assert "the generation of the state cannot be noted: no" in done.stderr
    assert cluster.state["images"] == {"/shop": {}}
