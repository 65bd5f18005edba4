"""A Ceph cluster deployed with Ceph's own programs alone (`deploy.sh`), from the root of an image.

Its daemons listen on this machine's address on a bridge of its own, which hosts of a site join.
"""

from __future__ import annotations

import shutil
import subprocess
import uuid
from pathlib import Path
from types import TracebackType

from tests.system.machine import tag_of, wait_for

SCRIPT = Path(__file__).with_name("deploy.sh")
READY_TIMEOUT_S = 180.0
_MOUNT = """
root=$DISK/root
mount -t overlay -o "lowerdir=$IMAGE,upperdir=$DISK/upper,workdir=$DISK/work" overlay "$root"
for name in dev sys; do mount --rbind "/$name" "$root/$name"; done
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount --bind "$DISK/data" "$root/var/lib/ceph"
exec chroot "$root" sh -eu -c "$DEPLOY"
"""
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class StockCluster:
    """The cluster, in `directory`: running between enter and exit."""

    network = "10.219.77"  # of no lab

    def __init__(self, directory: Path, image_root: Path) -> None:
        self._directory = directory
        self._image_root = image_root
        self.bridge = f"gr-{tag_of(directory, 'stock')}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StockCluster:
        """Deploy it, and wait until all copies are there."""
        for name in ("root", "upper", "work", "data"):
            (self._directory / name).mkdir(parents=True)
        _ip("link", "add", self.bridge, "type", "bridge")
        try:
            _ip("address", "add", f"{self.network}.1/24", "dev", self.bridge)
            _ip("link", "set", self.bridge, "up")
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End its daemons, and remove all of it."""
        self._end()

    def ok(self, *argv: str) -> str:
        """What a command prints on the cluster, with the key of an administrator."""
        assert self._process is not None
        (inner,) = _children(self._process.pid)
        finished = subprocess.run(
            ["nsenter", f"--target={inner}", "--mount", "--pid", "--root", "--wd=/", *argv],
            env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert finished.returncode == 0, f"{' '.join(argv)}: {finished.stderr[-2000:]}"
        return finished.stdout

    def _start(self) -> None:
        log = self._directory / "log"
        with log.open("wb") as output:
            self._process = process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--propagation=private", "--pid", "--fork"),
                    *("--kill-child", "sh", "-eu", "-c", _MOUNT),
                ],
                env={
                    "PATH": _PATH,
                    "DISK": str(self._directory),
                    "IMAGE": str(self._image_root),
                    "DEPLOY": SCRIPT.read_text(),
                    "ADDRESS": f"{self.network}.1",
                    "FSID": str(uuid.uuid4()),
                    "OSD_SIZE": "8G",
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

        def is_ready() -> bool:
            assert process.poll() is None, f"it ended: {log.read_text()[-2000:]}"
            return (self._directory / "upper" / "ready").exists()

        wait_for(is_ready, f"the cluster to serve (see {log})", READY_TIMEOUT_S)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()  # and with it the first process of the namespace
            self._process.wait(30)
        _ip("link", "delete", self.bridge)

        def is_removed() -> bool:
            shutil.rmtree(self._directory, ignore_errors=True)
            return not self._directory.exists()

        wait_for(is_removed, "the files of the cluster to go")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, timeout=30, check=True)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
