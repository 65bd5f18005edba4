"""Data files in YAML: read strictly, and explained to whoever wrote them when they are wrong."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from grampus.core.errors import UsageError, closest_name, suggest_file

Declared = TypeVar("Declared", bound=BaseModel)
_EXPLAINED = "explained"


class _OnceOnlyLoader(yaml.SafeLoader):
    """Refuses a key that stands twice: the first of the two would be dropped without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key!r} is there twice", problem_mark=key_node.start_mark
                )
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


def explained(problem: str, remedy: str) -> PydanticCustomError:
    """The error of a validator that has both sentences itself.

    `problem` goes on after "In FILE, " and ends with a full stop, as `remedy` does.
    """
    # What is said may hold braces, which the template would take for its own.
    return PydanticCustomError(_EXPLAINED, "{problem}", {"problem": problem, "remedy": remedy})


def read_declared(file: Path, model: type[Declared], *, noun: str) -> Declared:
    """What `file` declares. Raises UsageError as `parse_declared`, or when it cannot be read."""
    return parse_declared(read_text(file, noun=noun), model, source=file.name, noun=noun)


def read_text(file: Path, *, noun: str) -> str:
    """The text of `file`. Raises UsageError (code `invalid-NOUN`) when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"The file {file} does not exist.",
            suggest_file(file, "Give the path of the file."),
            code=f"invalid-{noun}",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}.", "Correct the file.", code=f"invalid-{noun}"
        ) from None


def require_file_name(file: Path, name: str, *, noun: str) -> None:
    """Raise UsageError (code `invalid-NOUN`) unless what `file` declares has the file's name."""
    if name != file.stem:
        raise UsageError(
            f"{file.name} holds a {noun} that calls itself '{name}'.",
            f"Set name to {file.stem}, or rename the file to {name}.yaml.",
            code=f"invalid-{noun}",
        )


def parse_declared(text: str, model: type[Declared], *, source: str, noun: str) -> Declared:
    """The `model` in the YAML `text`; `source` names the file in errors.

    Raises UsageError (code `invalid-NOUN`) that names the file, the first field that is wrong, and
    for an unknown key also those that are known at that place.
    """
    content = parse_mapping(text, source=source, noun=noun, keys=model.model_fields)
    return validate_declared(content, model, source=source, noun=noun)


def parse_mapping(text: str, *, source: str, noun: str, keys: Iterable[str]) -> dict[str, Any]:
    """The keys and values of the YAML `text`, not yet looked at; `keys` are advised if none are.

    Raises UsageError (code `invalid-NOUN`) when it is no YAML or no mapping.
    """
    code = f"invalid-{noun}"
    try:
        content = yaml.load(text, _OnceOnlyLoader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{source} is not valid YAML: {reason}.", "Correct the file.", code=code
        ) from None
    if not isinstance(content, dict):
        raise UsageError(
            f"{source} holds no keys.",
            f"Write a {noun} with these keys: {', '.join(keys)}.",
            code=code,
        )
    return content


def validate_declared(
    content: dict[str, Any], model: type[Declared], *, source: str, noun: str
) -> Declared:
    """The `model` that `content` holds. Raises UsageError as `parse_declared`."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise _describe_invalid(source, model, error.errors(), code=f"invalid-{noun}") from None


def _describe_invalid(
    source: str, model: type[BaseModel], errors: list[ErrorDetails], *, code: str
) -> UsageError:
    """The error for a user about the first thing that is wrong in the file `source`."""
    # An unknown key goes first: it is most often the misspelt form of one then found missing.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    location = first["loc"]
    place = _shown_place(model, location)
    if first["type"] == _EXPLAINED:
        context = first["ctx"]
        where = f"{source} ({place})" if place else source
        return UsageError(f"In {where}, {context['problem']}", context["remedy"], code=code)
    if first["type"] == "extra_forbidden":
        known = sorted(
            {key for one in _models_at(model, location[:-1]) for key in one.model_fields}
        )
        suggestion = closest_name(str(location[-1]), known)
        hint = f"Did you mean '{suggestion}'? " if suggestion else ""
        return UsageError(
            f"{source} has an unknown key '{place}'.",
            f"{hint}Known keys there: {', '.join(known)}.",
            code=code,
        )
    if first["type"] == "missing":
        return UsageError(f"{source} lacks the key '{place}'.", "Add it.", code=code)
    given: Any = first["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float) else ""
    where = f"the value of '{place}'" if place else "the file"
    reason = first["msg"].removeprefix("Value error, ").rstrip(".")
    return UsageError(
        f"In {source}, {where} is not valid{shown}: {reason}.", "Correct it.", code=code
    )


def canonical_json(content: object) -> str:
    """`content` as JSON that is the same in every process: sorted keys, no room, ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def word_list(words: list[str], *, last: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def _models_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[type[BaseModel]]:
    """The models that may stand at `location`; several where a union has no tag that decides."""
    here = [model]
    for part in location:
        below = [one.model_fields[part] for one in here if part in one.model_fields]
        if below:
            found: list[type[BaseModel]] = []
            for field in below:
                _collect_models(field.annotation, found)
            here = found
        elif tagged := [one for one in here if _is_tag(one, part)]:
            here = tagged
    return here


def _shown_place(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """`location` as the writer of the file sees it: pydantic puts a union's tag in between."""
    shown = [
        str(part)
        for position, part in enumerate(location)
        if not any(_is_tag(one, part) for one in _models_at(model, location[:position]))
    ]
    return ".".join(shown)


def _is_tag(model: type[BaseModel], part: int | str) -> bool:
    return any(
        get_origin(field.annotation) is Literal and get_args(field.annotation) == (part,)
        for field in model.model_fields.values()
    )


def _collect_models(annotation: object, found: list[type[BaseModel]]) -> None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found.append(annotation)
    for argument in get_args(annotation):
        _collect_models(argument, found)


Distribution = Literal["uniform", "gaussian", "special", "pareto"]
LowerKebab = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=40)]
