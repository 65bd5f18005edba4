"""Whether a built root holds what its definition promises."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from grampus.lab.images.definition import ImageDefinition, ImageUser

PROGRAM_DIRECTORIES = ("usr/bin", "usr/sbin", "bin", "sbin")
_MAX_LINKS = 40  # as the kernel: more is a loop


def verify_image(root: Path, definition: ImageDefinition) -> list[str]:
    """What is missing under `root`, in words, such as `the program rbd`; empty when complete.

    Symbolic links are followed as they would be inside the image, never out of it.
    """
    return [
        *(f"the program {name}" for name in definition.programs if not _has_program(root, name)),
        *(f"the file {path}" for path in definition.files if not _has_file(root, path)),
        *_missing_users(root, definition.users),
        *(
            f"the directory {directory.path}"
            for directory in definition.directories
            if not resolve_in_root(root, directory.path).is_dir()
        ),
    ]


def resolve_in_root(root: Path, path: str) -> Path:
    """Where `path`, as seen inside the image, lies on this machine.

    A link loop resolves to the link at which it was given up.
    """
    done = root
    remaining = list(PurePosixPath(path).parts)[::-1]
    links = 0
    while remaining:
        part = remaining.pop()
        if part == "/":
            done = root
        elif part == "..":
            done = done.parent if done != root else root
        else:
            candidate = done / part
            if candidate.is_symlink() and links < _MAX_LINKS:
                links += 1
                remaining.extend(PurePosixPath(candidate.readlink()).parts[::-1])
            else:
                done = candidate
    return done


def parse_package_versions(status: str, names: Iterable[str]) -> dict[str, str]:
    """Versions of the installed packages among `names`, from the text of dpkg's status file."""
    versions = {}
    for entry in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", entry, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            versions[fields.get("Package", "")] = fields.get("Version", "")
    return {name: versions[name] for name in names if name in versions}


def _has_program(root: Path, name: str) -> bool:
    candidates = (resolve_in_root(root, f"/{place}/{name}") for place in PROGRAM_DIRECTORIES)
    return any(path.is_file() and path.stat().st_mode & 0o111 for path in candidates)


def _has_file(root: Path, pattern: str) -> bool:
    found = root.glob(pattern.removeprefix("/"))
    return any(resolve_in_root(root, f"/{path.relative_to(root)}").exists() for path in found)


def _missing_users(root: Path, users: Iterable[ImageUser]) -> list[str]:
    passwd = resolve_in_root(root, "/etc/passwd")
    lines = passwd.read_text(encoding="utf-8").splitlines() if passwd.is_file() else []
    known = {tuple(line.split(":")[:4:2]) for line in lines}
    return [
        f"the user {user.name} with number {user.id}"
        for user in users
        if (user.name, str(user.id)) not in known
    ]
