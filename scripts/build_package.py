"""Build the Debian package of Grampus: `make package`. Prints the path of the file.

The same commit, the same Python and the same Rust make the same file, byte for byte.
Needs git, cargo, strip and dpkg-deb, and a package index for pip at the first build.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.package import control, tree  # noqa: E402

DIRECTORY = ROOT / "build" / "package"
# xz, because all servers of packages read it; at a low level, because much is compressed already.
# With one thread, the file does not depend on the number of cores.
_COMPRESSION = ("-Zxz", "-z1", "--threads-max=1")


def build_package(directory: Path) -> Path:
    """Build the package in `directory`, with the cache of DIRECTORY; returns its file."""
    project = control.parse_project((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    target = observe_target()
    time_s = int(os.environ.get("SOURCE_DATE_EPOCH") or observe_commit("%ct"))
    root = directory / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    tree.make_tree(
        root,
        checkout=ROOT,
        cache=DIRECTORY,
        project=project,
        target=target,
        commit=observe_commit("%H"),
    )
    digests = {
        # dpkg knows no other digest here.
        str(path.relative_to(root)): hashlib.md5(path.read_bytes()).hexdigest()  # noqa: S324
        for path in tree.list_files(root)
    }
    size_bytes = sum(path.stat().st_size for path in tree.list_files(root))
    about = root / "DEBIAN"
    tree.write(about / "control", control.render_control(project, target, size_bytes))
    tree.write(about / "md5sums", control.render_checksums(digests))
    for name in tree.MAINTAINER_SCRIPTS:
        tree.copy(tree.FILES / name, about / name, mode=0o755)
    tree.ensure_modes(root, time_s)
    file = directory / control.render_file_name(project, target)
    tree.run(
        ["dpkg-deb", "--root-owner-group", *_COMPRESSION, "--build", str(root), str(file)],
        env={"SOURCE_DATE_EPOCH": str(time_s)},
        cwd=directory,
    )
    return file


def observe_target() -> control.Target:
    """This machine's system: a package is for the Debian release on which it is built."""
    return control.Target(
        architecture=_ask("dpkg", "--print-architecture"),
        python=sys.version_info[:2],
        glibc=platform.libc_ver()[1],
    )


def observe_commit(form: str) -> str:
    """The commit that the checkout is at, in a form of `git log`."""
    return _ask("git", "-C", str(ROOT), "log", "-1", f"--format={form}")


def _ask(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Build it; one build at a time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where it is made")
    directory = parser.parse_args().directory.resolve()
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with (DIRECTORY / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(build_package(directory))  # noqa: T201


if __name__ == "__main__":
    main()
