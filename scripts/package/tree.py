"""The files of the package: made below a directory as they are installed below /.

Python's packages of others are kept in a cache, by a digest of what they are installed from.
volumed is that of the checkout: cargo builds it if need be.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scripts.package.control import (
    NAME,
    PYTHON_DIRECTORY,
    Project,
    Target,
    render_metadata,
    render_venv,
    site_packages,
)
from typer.completion import get_completion_script

from grampus.core.installation import COMMIT_FILE, DATA_DIRECTORIES, PACKAGE

FILES = Path(__file__).with_name("files")
MAINTAINER_SCRIPTS = ("postinst", "postrm", "prerm")
_UNITS = ("grampus-lab@.service", "grampus-site@.service")
# Of completion: the shell, and the file that it loads by itself.
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/grampus",
    "fish": "usr/share/fish/vendor_completions.d/grampus.fish",
    "zsh": "usr/share/zsh/vendor-completions/_grampus",
}
# Raise it when packages of others are to be installed in another way.
_CACHE_FORMAT = 1


def run(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path) -> None:
    """Run a command of the build; what it says on stdout goes to stderr."""
    environment = {**os.environ, **(env or {})}
    subprocess.run(argv, cwd=cwd, env=environment, stdout=sys.stderr, check=True)


def make_tree(
    root: Path, *, checkout: Path, cache: Path, project: Project, target: Target, commit: str
) -> None:
    """All files of the package below `root`, a directory that does not exist yet."""
    packages = root / site_packages(target.python)
    dependencies = ensure_dependencies(checkout, cache, project, target)
    shutil.copytree(dependencies, packages, symlinks=True)
    copy_tracked(checkout / "src", packages, NAME)
    metadata = packages / f"{NAME}-{project.version}.dist-info" / "METADATA"
    write(metadata, render_metadata(project))
    write(metadata.with_name("INSTALLER"), "dpkg\n")
    compile_packages(packages / NAME, packages, target)

    environment = root / PYTHON_DIRECTORY
    write(environment / "pyvenv.cfg", render_venv(target.python))
    (environment / "bin").mkdir()
    (environment / "bin" / "python3").symlink_to("/usr/bin/python3")
    copy(FILES / NAME, environment / "bin" / NAME, mode=0o755)
    (root / "usr/bin").mkdir()
    (root / "usr/bin" / NAME).symlink_to(f"../lib/{NAME}/bin/{NAME}")
    build_volumed(checkout, below(root, PACKAGE.volumed))

    data = below(root, PACKAGE.data)
    for name in DATA_DIRECTORIES:
        copy_tracked(checkout, data, name)
    write(data / COMMIT_FILE, f"{commit}\n")
    for name in _UNITS:
        copy(FILES / name, root / "usr/lib/systemd/system" / name)
    for shell, path in _COMPLETIONS.items():
        script = get_completion_script(
            prog_name=NAME, complete_var="_GRAMPUS_COMPLETE", shell=shell
        )
        write(root / path, f"{script}\n")
    documentation = root / "usr/share/doc" / NAME
    copy(FILES / "copyright", documentation / "copyright")
    changes = gzip.compress((checkout / "CHANGELOG.md").read_bytes(), mtime=0)
    (documentation / "changelog.gz").write_bytes(changes)


def ensure_dependencies(checkout: Path, cache: Path, project: Project, target: Target) -> Path:
    """Python's packages of others, compiled; a directory in the cache."""
    constraints = checkout / "constraints.txt"
    made_of = [_CACHE_FORMAT, target, project.dependencies, constraints.read_text()]
    digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]
    ready = cache / f"python-{digest}"
    if ready.is_dir():
        return ready
    making = cache / "python-making"
    shutil.rmtree(making, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    # Wheels alone: what is compiled here would have this machine's paths in it.
    options = ("--only-binary", ":all:", "--no-compile", "--constraint", str(constraints))
    run(
        [*pip, "install", *options, "--target", str(making), *project.dependencies],
        env={"PYTHONPATH": ""},
        cwd=checkout,
    )
    shutil.rmtree(making / "bin", ignore_errors=True)  # programs, with the path of this Python
    for record in (*making.glob("*.dist-info/RECORD"), *making.glob("*.dist-info/REQUESTED")):
        record.unlink()  # dpkg knows which files there are
    compile_packages(making, making, target)
    for older in cache.glob("python-*"):
        if older != making:
            shutil.rmtree(older)
    return making.rename(ready)


def compile_packages(directory: Path, packages: Path, target: Target) -> None:
    """Compile all modules in `directory`, as if `packages` were where it is installed.

    Python does not compare them with their sources, whose times the package does not keep.
    """
    options = ("--invalidation-mode", "unchecked-hash", "-q", "-f", "-j", "1")
    places = ("-s", str(packages), "-p", f"/{site_packages(target.python)}")
    run(
        [sys.executable, "-m", "compileall", *options, *places, str(directory)],
        env={"PYTHONHASHSEED": "0", "PYTHONPATH": ""},
        cwd=Path("/"),
    )


def build_volumed(checkout: Path, target: Path) -> None:
    """The checkout's volumed, without symbols, as the file `target`."""
    script = checkout / "scripts" / "cargo-release.sh"
    run([str(script), "--package", "grampus-volumed"], cwd=checkout)
    copy(checkout / "dataplane/target/release/volumed", target, mode=0o755)
    run(["strip", str(target)], cwd=checkout)


def list_files(root: Path) -> Iterator[Path]:
    """All files below a directory, not the links, in the order of their paths."""
    yield from sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def ensure_modes(root: Path, time_s: int) -> None:
    """Modes and times that do not depend on this machine."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            is_open = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_open else 0o644)
        os.utime(path, (time_s, time_s), follow_symlinks=False)


def below(root: Path, path: Path) -> Path:
    """An absolute path below another root."""
    return root / path.relative_to("/")


def copy_tracked(source: Path, target: Path, name: str) -> None:
    """The files in `source`/`name` that git tracks, or would, to the same place in `target`."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", name]
    listed = subprocess.run(argv, cwd=source, capture_output=True, text=True, check=True).stdout
    for path in filter(None, listed.split("\0")):
        if (source / path).is_file():  # a tracked file may have been deleted
            copy(source / path, target / path)


def copy(source: Path, target: Path, *, mode: int = 0o644) -> None:
    """A copy with that mode; its directory is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def write(file: Path, text: str) -> None:
    """A new file; its directory is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
