"""A clean Debian 12, to install the package of Grampus on: without this checkout or a network.

    with CleanDebian(directory, root_cache=cache) as debian:
        debian.run("dpkg", "--install", debian.put(package))

It is an overlay of one root, built once. Each command has its own mount, PID, network, IPC and UTS
namespaces; files stay until the end. No service manager runs. Needs root.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from grampus.core.clock import SystemClock
from grampus.core.progress import SilentProgress
from grampus.lab.images.cache import HostImages
from grampus.state.home import Home

DEFINITIONS = Path(__file__).with_name("debian_root")
IMAGE = "clean-debian"
# Arguments: the image's root, the directory of the overlay, and the command.
_ENTER = """
set -e
lower=$1 disk=$2
shift 2
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$disk/upper,workdir=$disk/work" "$disk/root"
mount -t proc proc "$disk/root/proc"
mount --rbind /dev "$disk/root/dev"
mount -t tmpfs -o mode=755 tmpfs "$disk/root/run"
exec chroot "$disk/root" "$@"
"""
_ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}


class CleanDebian:
    """The machine between enter and exit; `directory` is for it alone."""

    def __init__(self, directory: Path, *, root_cache: Path) -> None:
        self._directory = directory.resolve()
        self._root_cache = root_cache.resolve()
        self._root = Path()

    def __enter__(self) -> CleanDebian:
        """Build the root if it is not there yet, and begin with an empty overlay."""
        images = HostImages(Home(self._root_cache), DEFINITIONS, SystemClock())
        self._root = images.ensure(IMAGE, SilentProgress()).root
        shutil.rmtree(self._directory, ignore_errors=True)  # of a test that was killed
        for part in ("root", "work", "upper"):
            (self._directory / part).mkdir(parents=True)
            (self._directory / part).chmod(0o755)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove what was written."""
        shutil.rmtree(self._directory)

    def put(self, file: Path) -> str:
        """Copy a file there; its path on the machine."""
        target = self._directory / "upper" / "srv" / file.name
        target.parent.mkdir(exist_ok=True)
        target.parent.chmod(0o755)
        shutil.copyfile(file, target)
        return f"/srv/{file.name}"

    def run(
        self, *argv: str, timeout_s: float = 60, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """A command to its end, whatever its code."""
        namespaces = ("--mount", "--propagation", "slave", "--pid", "--net", "--ipc", "--uts")
        return subprocess.run(
            [
                *("unshare", *namespaces, "--fork", "--kill-child"),
                *("sh", "-c", _ENTER, "enter", str(self._root), str(self._directory), *argv),
            ],
            env={**_ENVIRONMENT, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def ok(self, *argv: str, timeout_s: float = 60, **variables: str) -> str:
        """What a command prints that must succeed."""
        finished = self.run(*argv, timeout_s=timeout_s, **variables)
        said = f"{finished.stdout[-2000:]}{finished.stderr[-2000:]}"
        assert finished.returncode == 0, f"{' '.join(argv)}: code {finished.returncode}: {said}"
        return finished.stdout

    def written(self) -> set[str]:
        """Paths of what was written since the beginning and is still there, or was removed."""
        upper = self._directory / "upper"
        return {
            f"/{path.relative_to(upper)}"
            for path in upper.rglob("*")
            if path.is_symlink() or not path.is_dir()
        }
