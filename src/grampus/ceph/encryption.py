"""LUKS2 inside RBD images, through commands on any reachable host.

The passphrase of an image goes to a command through its standard input: it is on no command line
and in no file. To open an image of an earlier Grampus takes seconds of CPU time, and up to 1 GiB of
memory for a moment: its header is one of `rbd encryption format` (`luks_format.py`).
"""

from __future__ import annotations

from pydantic import SecretStr

from grampus.ceph.cluster import CephCluster
from grampus.ceph.luks_format import FORMAT_LUKS2
from grampus.ceph.namespaces import split_image

# rbd opens it as it would any file with a passphrase.
STDIN = "/dev/stdin"
FORMAT_TIMEOUT_S = 120.0


class RbdEncryption:
    """The encrypted images of one cluster. Sizes are of what is in them, without the header."""

    def __init__(self, cluster: CephCluster) -> None:
        self._cluster = cluster

    def format(self, pool: str, image: str, passphrase: SecretStr) -> None:
        """Write a new LUKS2 header, with a new key, to an image that nobody has open.

        What the image held cannot be read any more.
        """
        namespace, name = split_image(image)
        argv = ["python3", "-c", FORMAT_LUKS2, pool, namespace, name]
        self._run(argv, passphrase, timeout_s=FORMAT_TIMEOUT_S)

    def resize(self, pool: str, image: str, size_bytes: int, passphrase: SecretStr) -> None:
        """Grow what the image holds to that size; it may be in use.

        Raises GrampusError when it is bigger already.
        """
        size = ("--size", f"{size_bytes}B")
        opened = ("--encryption-format", "luks", "--encryption-passphrase-file", STDIN)
        # Whoever has the image open does the resize, and takes the size for that of its content:
        # so must `rbd` when nobody has.
        argv = ["rbd", "resize", "--no-progress", *size, *opened, f"{pool}/{image}"]
        self._run(argv, passphrase, timeout_s=FORMAT_TIMEOUT_S)

    def _run(self, argv: list[str], passphrase: SecretStr, *, timeout_s: float) -> None:
        secret = passphrase.get_secret_value()
        self._cluster.runner.run(argv, stdin=secret, timeout_s=timeout_s)
