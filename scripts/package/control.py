"""What dpkg and Python read about the package (pure)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

NAME = "grampus"
PYTHON_DIRECTORY = "usr/lib/grampus"
# Debian packages of the programs that Grampus starts on its own machine; everything else that it
# starts there is in packages that each Debian has (Essential: yes). scripts/setup.sh has the same.
PROGRAMS = ("debian-archive-keyring", "iproute2", "mmdebstrap", "mount", "openssh-client")
# Only a lab needs containers; a site has systemd on its hosts.
PROGRAMS_OF_LABS = ("runc",)
_DESCRIPTION = """\
 Grampus creates and operates MySQL and MariaDB databases on RBD volumes of an
 existing Ceph cluster, on hosts that it reaches by SSH, and measures them. This
 package is for the machine of Grampus. Hosts need no package."""


@dataclass(frozen=True)
class Project:
    """What pyproject.toml says."""

    version: str
    summary: str
    requires_python: str
    dependencies: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """For which systems a package is."""

    architecture: str  # as dpkg calls it
    python: tuple[int, int]  # compiled packages work with this version alone
    glibc: str  # volumed may use all of it


def parse_project(text: str) -> Project:
    """The project in a pyproject.toml."""
    table = tomllib.loads(text)["project"]
    return Project(
        version=table["version"],
        summary=table["description"],
        requires_python=table["requires-python"],
        dependencies=tuple(table["dependencies"]),
    )


def render_file_name(project: Project, target: Target) -> str:
    """The package's file, as dpkg names it."""
    return f"{NAME}_{project.version}_{target.architecture}.deb"


def site_packages(python: tuple[int, int]) -> str:
    """Where Python looks for packages in the package's virtual environment, below /."""
    return f"{PYTHON_DIRECTORY}/lib/python{python[0]}.{python[1]}/site-packages"


def render_depends(target: Target) -> str:
    """The field Depends."""
    major, minor = target.python
    return ", ".join(
        [
            f"libc6 (>= {target.glibc})",
            "libgcc-s1",
            f"python3 (>= {major}.{minor})",
            f"python3 (<< {major}.{minor + 1})",
            *PROGRAMS,
        ]
    )


def render_control(project: Project, target: Target, installed_bytes: int) -> str:
    """DEBIAN/control."""
    fields = {
        "Package": NAME,
        "Version": project.version,
        "Section": "database",
        "Priority": "optional",
        "Architecture": target.architecture,
        "Maintainer": "Grampus contributors",
        "Installed-Size": str(-(-installed_bytes // 1024)),
        "Depends": render_depends(target),
        "Recommends": ", ".join(PROGRAMS_OF_LABS),
        "Description": project.summary,
    }
    lines = [f"{name}: {value}" for name, value in fields.items()]
    return "\n".join([*lines, _DESCRIPTION, ""])


def render_metadata(project: Project) -> str:
    """METADATA of the Python package: `grampus --version` reads its version."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {project.version}",
        f"Summary: {project.summary}",
        f"Requires-Python: {project.requires_python}",
        *(f"Requires-Dist: {requirement}" for requirement in project.dependencies),
    ]
    return "\n".join([*lines, ""])


def render_venv(python: tuple[int, int]) -> str:
    """pyvenv.cfg: Debian's interpreter with the package's own packages, and no others."""
    major, minor = python
    return (
        "home = /usr/bin\n"
        "include-system-site-packages = false\n"
        f"version = {major}.{minor}\n"
        f"executable = /usr/bin/python{major}.{minor}\n"
    )


def render_checksums(digests: Mapping[str, str]) -> str:
    """DEBIAN/md5sums, from MD5 digests by path below /: what `dpkg --verify` compares with."""
    return "".join(f"{digests[path]}  {path}\n" for path in sorted(digests))
