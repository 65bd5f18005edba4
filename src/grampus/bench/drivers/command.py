"""What drivers' commands begin with: a bound in time, and for rados and rbd the cluster.

No key is on a command line: it is in the keyring that the configuration names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class CephClient:
    """A client of a cluster; `user` is without "client.".

    `keyring` is where its key is if not where the configuration says. `image_settings` are options
    of librbd in place of those of the configuration.
    """

    conf: PurePosixPath
    user: str
    keyring: PurePosixPath | None = None
    image_settings: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """The options that ceph, rados and rbd share. No key is among them."""
        keyring = [] if self.keyring is None else ["--keyring", str(self.keyring)]
        return ["--conf", str(self.conf), "--id", self.user, *keyring]


# Of a host of a lab.
LAB_ADMIN = CephClient(PurePosixPath("/etc/ceph/ceph.conf"), "admin")


KILL_AFTER_S = 5


def bounded_argv(argv: Sequence[str], *, timeout_s: int) -> list[str]:
    """The command in the C locale (decimal points), ended with code 124 after `timeout_s`."""
    return [
        "env",
        "LC_ALL=C",
        "timeout",
        "--foreground",
        f"--kill-after={KILL_AFTER_S}",
        str(timeout_s),
        *argv,
    ]
