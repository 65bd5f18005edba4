"""The upgrade of a host as an operation: its document and its steps."""

from __future__ import annotations

from typing import Protocol

from pydantic import ConfigDict

from grampus.core.models import Model
from grampus.hosts.remote.host_parts import HostParts
from grampus.operations.operation_type import OperationType
from grampus.sites.host_images import ImageCopy
from grampus.state.operations import Step

# Kinds of operations on hosts; their subject is the host's name.
KIND_PREFIX = "host."


class PartsDocument(Model):
    """What a host has of Grampus, as `HostParts`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int
    version: str
    image_id: str
    digest: str

    def parts(self) -> HostParts:
        """The same, as it is compared."""
        return HostParts(self.format, self.version, self.image_id, self.digest)

    @classmethod
    def of(cls, parts: HostParts) -> PartsDocument:
        """The document of these parts."""
        return cls(
            format=parts.format,
            version=parts.version,
            image_id=parts.image_id,
            digest=parts.digest,
        )


class HostUpgradeOrder(Model):
    """An upgrade, with all that its steps need."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    former: PartsDocument
    parts: PartsDocument
    # The new image has servers of other series: databases keep theirs until `db upgrade`.
    keeps_servers: bool

    @classmethod
    def of(
        cls, host: str, former: HostParts, parts: HostParts, *, keeps_servers: bool
    ) -> HostUpgradeOrder:
        """The upgrade of a host from some parts to others."""
        return cls(
            host=host,
            former=PartsDocument.of(former),
            parts=PartsDocument.of(parts),
            keeps_servers=keeps_servers,
        )


class UpgradeWork(Protocol):
    """What the steps of an upgrade do; every method is idempotent."""

    def keep_servers(self) -> None: ...

    def look(self, name: str) -> None: ...

    def copy(self, name: str, image: ImageCopy) -> None: ...

    def remove_copy(self, name: str, image_id: str) -> None: ...

    def switch(self, name: str, parts: HostParts) -> None: ...

    def switch_back(self, name: str, former: HostParts) -> None: ...

    def check(self, name: str) -> None: ...

    def follow(self, parts: HostParts) -> None: ...

    def remove_older_of(self, name: str) -> None: ...


def _upgrade_steps(work: UpgradeWork, order: HostUpgradeOrder) -> list[Step]:
    host, former, parts = order.host, order.former.parts(), order.parts.parts()
    image = ImageCopy(parts.image_id, parts.digest)
    keep = Step("servers", "Record that databases keep their present servers", work.keep_servers)
    return [
        Step("look", f"Check the machine {host}", lambda: work.look(host)),
        Step(
            "copy",
            f"Copy the host image {image.id} to {host}",
            lambda: work.copy(host, image),
            lambda: work.remove_copy(host, image.id),
        ),
        *([keep] if order.keeps_servers else []),
        Step(
            "switch",
            f"Use the host image {image.id} on {host}",
            lambda: work.switch(host, parts),
            lambda: work.switch_back(host, former),
        ),
        Step("check", f"Check {host} with the new image", lambda: work.check(host)),
        Step("site", "Record the image for new hosts", lambda: work.follow(parts)),
        Step(
            "clean",
            f"Remove the older host images of {host} that are not used",
            lambda: work.remove_older_of(host),
        ),
    ]


UPGRADE_HOST = OperationType[UpgradeWork, HostUpgradeOrder](
    f"{KIND_PREFIX}upgrade",
    "upgrade of the host",
    document=HostUpgradeOrder,
    build=_upgrade_steps,
    subject=lambda order: order.host,
    when_cut_off="finish-or-undo",
)
