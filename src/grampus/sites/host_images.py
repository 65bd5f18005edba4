"""Host images that are copied to a host, compared with the original, and removed again.

Failure and recovery: a copy that is not whole is removed when copying fails, and by the next copy
when its process was killed. An image that is used is neither replaced nor removed.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from grampus.core.errors import GrampusError, RefusedError
from grampus.core.progress import Progress
from grampus.core.units import format_bytes, format_bytes_apart
from grampus.hosts.port import CommandFailedError
from grampus.hosts.process import read_command, run_command, write_command
from grampus.hosts.remote.host_parts import HostParts
from grampus.hosts.remote.image_scripts import (
    DIGEST_TIMEOUT_S,
    IMAGE_IN_USE,
    MISSING_IMAGE,
    SPARE_BYTES,
    FoundImages,
    digest_argv,
    discard_argv,
    free_argv,
    image_root,
    is_daemon,
    keep_argv,
    note_parts_argv,
    observe_digest,
    observe_images_argv,
    parse_images,
    remove_image_argv,
    unfinished_root,
    unpack_argv,
)
from grampus.hosts.remote.remote_host import run_on_machine
from grampus.hosts.remote.ssh import SshPlace, ssh_argv

_CHUNK_BYTES = 1024 * 1024
_NO_SPACE = "No space left on device"


@dataclass(frozen=True)
class ImageCopy:
    """An image as a host must have it; `digest` is that of its files (`digest_argv`)."""

    id: str
    digest: str


class HostImageCopies:
    """Images of one site on its hosts; the originals are in `images` on this machine."""

    def __init__(self, directory: str, images: Path, progress: Progress) -> None:
        """`directory` is that of the site on each host."""
        self._directory = directory
        self._images = images
        self._progress = progress

    def root(self, image_id: str) -> Path:
        """The root of an original. Raises GrampusError with code `other-image`: it is absent."""
        root = self._images / image_id / "root"
        if not root.is_dir():
            raise GrampusError(
                f"The host image {image_id} does not exist in {self._images}.",
                "Copy the image's directory from the machine that built it "
                "(docs/guide/host-images.md).",
                code="other-image",
            )
        return root

    def original(self, image_id: str) -> ImageCopy:
        """An image of this machine, with its digest. Errors as `root`."""
        return ImageCopy(image_id, observe_digest(self.root(image_id)))

    def size_bytes(self, image_id: str) -> int:
        """What an original takes on disk. Errors as `root`."""
        used = run_command(["du", "-sk", str(self.root(image_id))], timeout_s=DIGEST_TIMEOUT_S)
        return int(used.stdout.split()[0]) * 1024

    def is_whole(self, ssh: SshPlace, image: ImageCopy) -> bool | None:
        """Whether the image on the host is the one that was sent; None: it is not there."""
        found = self._digest_at(ssh, image_root(self._directory, image.id))
        return None if found is None else found == image.digest

    def ensure(self, ssh: SshPlace, image: ImageCopy) -> None:
        """The image on the host, whole.

        Raises GrampusError with code `host-disk-full` or `host-image`, RefusedError with code
        `host-in-use` when services run from an image that was changed. The host is then as it was.
        """
        is_whole = self.is_whole(ssh, image)
        if is_whole:
            return
        if is_whole is False:
            self._require_replaceable(ssh, image.id)
        size_bytes = self.size_bytes(image.id)
        self._progress.phase(f"Copy the host image to {ssh.host}")
        self._require_space(ssh, size_bytes)
        try:
            self._send(ssh, image.id, size_bytes)
            self._progress.phase("Compare the copy")
            unfinished = unfinished_root(self._directory, image.id)
            if self._digest_at(ssh, unfinished) != image.digest:
                raise GrampusError(
                    f"The host image on {ssh.host} is not what was sent.",
                    "Check the disk of the host, then try again.",
                    code="host-image",
                )
            self._change(ssh, keep_argv(self._directory, image.id))
        except BaseException:
            # A host that cannot be reached keeps it until the next copy.
            with contextlib.suppress(GrampusError):
                run_on_machine(ssh, discard_argv(self._directory, image.id), check=False)
            raise

    def ensure_absent(self, ssh: SshPlace, image_id: str) -> None:
        """The image gone from the host. Raises RefusedError with code `host-in-use`."""
        self._change(ssh, remove_image_argv(self._directory, image_id))

    def note_parts(self, ssh: SshPlace, parts: HostParts) -> None:
        """The host says from now on that it has these parts."""
        run_on_machine(ssh, note_parts_argv(self._directory, parts.words()))

    def observe(self, ssh: SshPlace) -> FoundImages:
        """The images of the host, and what uses them."""
        return parse_images(run_on_machine(ssh, observe_images_argv(self._directory)).stdout)

    def _require_replaceable(self, ssh: SshPlace, image_id: str) -> None:
        used = [one for one in self.observe(ssh).users.get(image_id, ()) if is_daemon(one)]
        if used:
            raise RefusedError(
                f"The host image {image_id} on {ssh.host} was changed, and it cannot be replaced "
                f"while services run from it: {', '.join(used)}.",
                f"Move its databases away (`grampus host drain {ssh.host}`), then run "
                f"`grampus host upgrade {ssh.host}`.",
                code="host-in-use",
            )

    def _require_space(self, ssh: SshPlace, size_bytes: int) -> None:
        free_kib = run_on_machine(ssh, free_argv(self._directory)).stdout.strip()
        free_bytes = int(free_kib or 0) * 1024
        if free_bytes < size_bytes + SPARE_BYTES:
            free, needed = format_bytes_apart(free_bytes, size_bytes + SPARE_BYTES)
            raise _disk_full(
                ssh.host,
                f"{free} are free, and the host image needs {needed}.",
                self._directory,
            )

    def _send(self, ssh: SshPlace, image_id: str, size_bytes: int) -> None:
        pack = ["tar", "-C", str(self.root(image_id).parent), "--numeric-owner", "-cf", "-", "root"]
        unpack = ssh_argv(ssh, unpack_argv(self._directory, image_id))
        sent_bytes = 0
        try:
            with (
                read_command(pack) as archive,
                write_command(unpack, where=ssh.host, shown=["tar"]) as stream,
            ):
                while chunk := archive.read(_CHUNK_BYTES):
                    stream.write(chunk)
                    sent_bytes += len(chunk)
                    done = f"{format_bytes(sent_bytes)} of {format_bytes(size_bytes)}"
                    self._progress.detail(done, fraction=min(1.0, sent_bytes / size_bytes))
        except CommandFailedError as error:
            if _NO_SPACE not in error.result.stderr:
                raise
            raise _disk_full(
                ssh.host, "It became full while the host image was copied.", self._directory
            ) from error

    def _change(self, ssh: SshPlace, argv: list[str]) -> None:
        changed = run_on_machine(ssh, argv, check=False)
        if changed.returncode == IMAGE_IN_USE:
            raise RefusedError(
                f"The host image on {ssh.host} cannot be replaced or removed, because it is in "
                f"use: {changed.stderr.strip()}.",
                f"Move its databases away first: `grampus host drain {ssh.host}`.",
                code="host-in-use",
            )
        if changed.returncode != 0:
            raise CommandFailedError(ssh.host, changed)

    def _digest_at(self, ssh: SshPlace, root: str) -> str | None:
        """The digest of an image on the host; None: it is not there."""
        looked = run_on_machine(ssh, digest_argv(root), check=False, timeout_s=DIGEST_TIMEOUT_S)
        if looked.returncode == MISSING_IMAGE:
            return None
        if looked.returncode != 0:
            raise CommandFailedError(ssh.host, looked)
        return looked.stdout.strip()


def _disk_full(host: str, sentence: str, directory: str) -> GrampusError:
    return GrampusError(
        f"The disk of {host} is full: {sentence}",
        f"Free space below {directory} on {host}, then try again. `grampus host upgrade {host}` "
        "removes older host images that nothing uses.",
        code="host-disk-full",
    )
