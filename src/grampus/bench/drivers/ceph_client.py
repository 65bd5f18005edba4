"""How rados and rbd reach a cluster: the key is in the keyring that the configuration names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class CephClient:
    """A client of a cluster; `user` is without "client."."""

    conf: PurePosixPath
    user: str

    @property
    def options(self) -> list[str]:
        """The options that rados and rbd share. No key is among them."""
        return ["--conf", str(self.conf), "--id", self.user]
