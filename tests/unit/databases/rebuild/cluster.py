"""Images with metadata, behind the scripts that note records and list the notes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from grampus.ceph.image_notes import LIST_NOTES, RECORDS_KEY, WRITE_NOTES
from grampus.ceph.namespaces import split_image
from grampus.core.errors import GrampusError
from tests.fakes.commands import Output, PlayedCommands, Reply


@dataclass
class NotedImage:
    """An image as the cluster has it."""

    name: str  # with its namespace, if it is not the default one
    id: str
    size_bytes: int = 1 << 30
    in_trash: bool = False
    has_data: bool = True
    metadata: dict[str, str] = field(default_factory=dict)
    pool: str = "databases"
    comes_from: str | None = None  # the pool that its migration copies from


@dataclass
class NotedCluster(PlayedCommands):
    """A `CommandRunner` in front of them."""

    images: list[NotedImage] = field(default_factory=list)
    is_down: bool = False
    told: int = 0  # images, in all calls
    asked: int = 0  # how often the MONs were asked for what they keep
    kept: dict[str, str] = field(default_factory=dict)  # by the MONs, by its key

    def play(self, argv: list[str], stdin: str | None) -> Reply:
        if self.is_down:
            raise GrampusError("The cluster does not answer.", code="timeout")
        match argv:
            case ["ceph", _, _, "config-key", "get", key]:
                self.asked += 1
                if key not in self.kept:
                    return Output(1, "", "Error ENOENT: ")
                return Output(stdout=self.kept[key])
            case ["ceph", _, _, "config-key", "set", key, text]:
                self.kept[key] = text
                return Output()
        found: Reply = self._answer(argv, stdin)
        return found

    def _answer(self, argv: list[str], stdin: str | None) -> Any:
        match argv:
            case ["ceph", _, _, "osd", "pool", "ls", "detail", *_]:
                return [
                    {"pool_name": "databases", "application_metadata": {"rbd": {}}},
                    {"pool_name": ".mgr", "application_metadata": {"mgr": {}}},
                ]
            case ["python3", "-c", script, key, "databases"] if script == LIST_NOTES:
                return [self._listed(image, key) for image in self.images]
            case ["rbd", "status", "--format", "json", place]:
                (found,) = (one for one in self.images if f"{one.pool}/{one.name}" == place)
                source = {"source_pool_name": found.comes_from, "source_image_id": "5a"}
                moving = {"migration": {**source, "dest_image_id": found.id, "state": "prepared"}}
                return moving if found.comes_from else {}
            case ["python3", "-c", script, key, place, text] if script == WRITE_NOTES:
                self.kept[place] = text
                return self._note(key, json.loads(stdin or "[]"))
        raise AssertionError(f"nobody asks that: {argv}")

    def _note(self, key: str, changes: list[dict[str, Any]]) -> list[int]:
        noted = []
        for number, change in enumerate(changes):
            image = self._find(change["namespace"], **change["image"])
            if image is None:
                continue
            image.metadata[key] = change["text"]
            noted.append(number)
        self.told += len(noted)
        return noted

    def _find(
        self, namespace: str, name: str | None = None, image_id: str | None = None
    ) -> NotedImage | None:
        for image in self.images:
            there, known = split_image(image.name)
            if there != namespace:
                continue
            if image_id == image.id or (name == known and not image.in_trash):
                return image
        return None

    @staticmethod
    def _listed(image: NotedImage, key: str) -> dict[str, Any]:
        assert key == RECORDS_KEY
        noted = image.metadata.get(key)
        return {
            "pool": image.pool,
            "name": image.name,
            "id": image.id,
            "size_bytes": image.size_bytes,
            "in_trash": image.in_trash,
            "has_data": noted is not None and image.has_data,
            "noted": noted,
            "journal": image.metadata.get("grampus.journal.objects"),
        }
