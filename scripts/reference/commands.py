"""The command line as pages: an index, and one page for each noun."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

PROGRAM = "grampus"
MARK = "<!-- Written by `make reference` from the code; changes made here are lost. -->"
INTRODUCTION = f"""\
# Reference

{MARK}

`{PROGRAM} NOUN VERB [OPTIONS]`. Results go to stdout, progress and errors to stderr. `--help` works
after every word.

With `--format json`, stdout holds one JSON document and nothing else, also when the command fails:
`{{"error": {{"code": ..., "problem": ..., "remedy": ...}}}}`. [Error codes](errors.md) lists the
codes. One error is on stderr alone: a word or option that the command line does not know.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | wrong use |
| 3 | not found |
| 4 | refused for safety |
| 130 | interrupted by Ctrl-C |

| variable | meaning |
|---|---|
| `GRAMPUS_HOME` | the directory for everything that Grampus keeps (default `/var/lib/grampus`) |
| `GRAMPUS_LAB` | the lab to work in, if `--lab` is not given |
| `GRAMPUS_SITE` | the site to work in, if `--site` is not given; it comes before `GRAMPUS_LAB` |
| `GRAMPUS_DEBUG` | if set, as `--debug` |
| `GRAMPUS_KEEP_OPERATIONS_DAYS` | how many days ended operations stay in the history (default 90) |
| `GRAMPUS_S3_CREDENTIALS` | the file with the keys of a bucket, if `--credentials` is not given |
| `GRAMPUS_DEBIAN_MIRROR` | the Debian archive for [host images](../guide/host-images.md) |
| `GRAMPUS_VOLUMED` | a volumed to use instead of the one that was built here |

[Installation](../guide/install.md#choose-where-data-are-kept) lists the files in `GRAMPUS_HOME`.

JSON schemas: [suites](suite.schema.json), [`run.json`](run.schema.json),
[`visits.jsonl`](visits.schema.json), [series](series.schema.json).
"""


@dataclass(frozen=True)
class Group:
    """A noun, or a noun below one, with the verbs and nouns directly under it."""

    words: tuple[str, ...]
    help: str
    members: tuple[tuple[str, Any], ...]

    @property
    def page(self) -> str:
        return f"commands/{'-'.join(self.words)}.md"

    @property
    def title(self) -> str:
        return " ".join((PROGRAM, *self.words))

    @property
    def verbs(self) -> list[tuple[str, Any]]:
        return [(name, member) for name, member in self.members if not _is_noun(member)]


def render_commands(root: Any) -> dict[str, str]:
    """The index and the pages of all nouns of a Click group, by file name."""
    groups = list(_walk(root))
    pages = {group.page: _render_group(group) for group in groups}
    return {"README.md": _render_index(root, groups), **pages}


def _walk(root: Any) -> Iterator[Group]:
    """Every noun in the order of --help. A verb without a noun is a group of its own."""
    for name, command in root.commands.items():
        if _is_noun(command):
            yield from _walk_noun(command, (name,))
        else:
            yield Group((name,), _first_sentence(command.help), ((name, command),))


def _walk_noun(noun: Any, words: tuple[str, ...]) -> Iterator[Group]:
    yield Group(words, _plain(noun.help), tuple(noun.commands.items()))
    for name, found in noun.commands.items():
        if _is_noun(found):
            yield from _walk_noun(found, (*words, name))


def _is_noun(command: Any) -> bool:
    return hasattr(command, "commands")


def _render_index(root: Any, groups: Sequence[Group]) -> str:
    rows = [f"| [{group.title}]({group.page}) | {group.help} |" for group in groups]
    lines = [
        INTRODUCTION,
        "## Commands\n",
        "| noun | about |",
        "|---|---|",
        *rows,
        "",
        f"## {PROGRAM}\n",
        "Options before the noun:\n",
        _options(root.params),
    ]
    return "\n".join(lines)


def _render_group(group: Group) -> str:
    lines = [f"# {group.title}\n", f"{MARK}\n"]
    if group.title == f"{PROGRAM} {group.verbs[0][0]}":  # a verb without a noun
        return "\n".join([*lines, _render_command(group.title, group.verbs[0][1], heading=False)])
    lines += [f"{group.help}\n", *_tables_of(group)]
    lines += [_render_command(f"{group.title} {name}", verb) for name, verb in group.verbs]
    return "\n".join(lines)


def _tables_of(group: Group) -> Iterator[str]:
    """A table of the members for each panel of --help, under the panel's name if it has one."""
    panels: dict[str, list[str]] = {}
    for name, member in group.members:
        link = f"#{'-'.join((PROGRAM, *group.words, name))}"
        if _is_noun(member):
            link = f"{'-'.join((*group.words, name))}.md"
        row = f"| [`{name}`]({link}) | {_first_sentence(member.help)} |"
        panels.setdefault(getattr(member, "rich_help_panel", None) or "", []).append(row)
    for panel, rows in panels.items():
        if panel:
            yield f"**{panel}**\n"
        yield "\n".join(["| command | what it does |", "|---|---|", *rows, ""])


def _render_command(words: str, command: Any, *, heading: bool = True) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join([words, *map(_argument_name, arguments), *_required(options), "[OPTIONS]"])
    lines = [f"## {words}\n"] if heading else []
    lines += [f"{_plain(command.help)}\n", "```", usage, "```\n"]
    if arguments:
        rows = [_row(_argument_name(param), param) for param in arguments]
        lines += ["| argument | meaning | default |", "|---|---|---|", *rows, ""]
    lines += [_options(options)]
    lines += ["Example:\n", "```", _example(command), "```\n"]
    return "\n".join(lines)


def _options(options: Sequence[Any]) -> str:
    rows = [_row(_option_names(option), option) for option in options]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows, ""])


def _required(options: Sequence[Any]) -> list[str]:
    return [_option_names(option) for option in options if option.required]


def _row(names: str, param: Any) -> str:
    # In a table a bar would end the cell, even inside code.
    names, meaning = (text.replace("|", "\\|") for text in (names, _plain(param.help or "")))
    if getattr(param, "envvar", None):
        meaning += f" Variable: `{param.envvar}`."
    return f"| `{names}` | {meaning} | {_default(param)} |".replace("|  |", "| |")


def _argument_name(param: Any) -> str:
    name = str(param.metavar or param.name.upper().replace("_", "-")).strip("[]")
    return name if param.required else f"[{name}]"


def _option_names(param: Any) -> str:
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    value = "" if param.is_flag else f" {_value_name(param)}"
    return f"{names}{value}"


def _value_name(param: Any) -> str:
    choices = param.type_descriptor.choices or ()
    return param.metavar or "|".join(choice.value for choice in choices) or param.name.upper()


def _default(param: Any) -> str:
    if param.required:
        return "required"
    default = param.default
    if default is None or default is False:
        return ""
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _example(command: Any) -> str:
    return _plain(command.epilog).removeprefix("Example: ").strip("`")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s", _plain(text), maxsplit=1)[0]


def _plain(text: str) -> str:
    """Without the markup of the terminal; single line breaks are spaces."""
    without_markup = re.sub(r"\[/?(bold|dim|red)\]", "`", text)
    paragraphs = [" ".join(part.split()) for part in without_markup.split("\n\n")]
    return "\n\n".join(paragraphs)
