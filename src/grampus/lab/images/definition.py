"""What a host image is made of: the definitions in `images/*.toml`, read and checked."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationError

from grampus.core.errors import GrampusError
from grampus.core.models import Model

# Raise it when the builder itself makes another root out of the same definition.
BUILDER_FORMAT = 1
DIGEST_LENGTH = 12

Flavour = Literal["mysql", "mariadb"]
Word = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]*$")]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9_./+*-]+$")]


class _Frozen(Model):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ImageUser(_Frozen):
    """A system user with a fixed number, so that data on a volume keeps its owner anywhere."""

    name: Word
    id: int = Field(ge=1, lt=65534, description="uid and gid alike")
    home: AbsolutePath


class ImageDirectory(_Frozen):
    """A directory that containers expect."""

    path: AbsolutePath
    owner: Word = Field(default="root", description="user and group of that name")
    mode: Annotated[str, StringConstraints(pattern=r"^[0-7]{4}$")] = "0755"


class ImageText(_Frozen):
    """A small file that the image holds beside its packages'."""

    path: AbsolutePath
    text: str


class ImageDefinition(_Frozen):
    """One file of `images/`."""

    name: Word
    title: str = Field(description="its contents, for people")
    suite: Word = Field(description="Debian suite")
    ceph_version: str
    database_version: str
    flavours: tuple[Flavour, ...] = Field(description="none: it runs no server")
    estimated_size_bytes: int = Field(gt=0, description="size of the root once built")
    packages: tuple[Word, ...] = Field(min_length=1)
    main_packages: tuple[Word, ...] = Field(description="those whose versions are reported")
    apt_options: tuple[str, ...] = ()
    programs: tuple[str, ...] = Field(description="names that must be found on the PATH")
    files: tuple[AbsolutePath, ...] = Field(description="path patterns that must match")
    users: tuple[ImageUser, ...] = ()
    directories: tuple[ImageDirectory, ...] = ()
    texts: tuple[ImageText, ...] = ()

    @property
    def runs_hosts(self) -> bool:
        """Whether hosts can run it: others hold a server, or a gateway, and no cluster."""
        return "ceph-osd" in self.packages

    @property
    def digest(self) -> str:
        """First 12 hex digits of SHA-256 over what the root depends on, and the builder's format.

        Prose and estimates are left out: correcting a title must not rebuild an image.
        """
        content = self.model_dump(
            mode="json",
            exclude={"title", "ceph_version", "database_version", "estimated_size_bytes"},
        )
        content["packages"] = sorted(content["packages"])
        content["builder_format"] = BUILDER_FORMAT
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_LENGTH]

    @property
    def image_id(self) -> str:
        """The id of the image built from this definition, such as `sid-0a1b2c3d4e5f`."""
        return f"{self.name}-{self.digest}"


def parse_definition(text: str, *, source: str) -> ImageDefinition:
    """The definition in `text` (TOML); `source` is its file's name, whose stem must be its name.

    Raises GrampusError with code `definition-invalid`.
    """
    try:
        definition = ImageDefinition.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _invalid(source, str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _invalid(source, f"{where}: {first['msg']}") from error
    if f"{definition.name}.toml" != source:
        raise _invalid(source, f"its name is '{definition.name}', not that of its file")
    return definition


def load_definitions(directory: Path) -> dict[str, ImageDefinition]:
    """All definitions in `directory` by name, sorted.

    Raises GrampusError with code `definition-invalid`, or `definitions-missing` when there is
    no definition at all.
    """
    definitions = {
        file.stem: parse_definition(file.read_text(encoding="utf-8"), source=file.name)
        for file in sorted(directory.glob("*.toml"))
    }
    if not definitions:
        raise GrampusError(
            f"{directory} has no host image definition.",
            "Install the Debian package again, or run Grampus from a complete checkout.",
            code="definitions-missing",
        )
    return definitions


def _invalid(source: str, reason: str) -> GrampusError:
    return GrampusError(
        f"The host image definition {source} is not valid ({reason}).",
        "Fix that file.",
        code="definition-invalid",
    )
