"""A noun of the command line: a group of words, each read when it is asked for.

A command pays for what it uses: the module of a word is imported, and the word's options are read,
when that word is typed. Help, and whatever else goes over all words of a noun, reads them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group
from typer.models import CommandInfo


class Noun(typer.Typer):
    """A group of verbs, and of nouns below it.

    `modules` names the module that adds each word, in the order of --help. `panels` does the same
    for a noun of many words, which --help shows in a panel for each task. A noun without either
    has the words that were added with it, verbs first.
    """

    def __init__(
        self,
        name: str,
        help_text: str,
        modules: Mapping[str, str] | None = None,
        *,
        panels: Mapping[str, Mapping[str, str]] | None = None,
        completes: bool = False,
    ) -> None:
        """`completes`: it has options that print and install completion for shells."""
        super().__init__(
            name=name,
            cls=_group_of(self),
            # What has a callback is a group to Typer, whatever words it knows of.
            callback=_nothing,
            # What our own handling lets through (--debug) is a plain traceback, without local
            # variables: they may hold a password.
            pretty_exceptions_enable=False,
            help=help_text,
            no_args_is_help=True,
            add_completion=completes,
            rich_markup_mode="rich",
            context_settings={"help_option_names": ["--help", "-h"]},
        )
        self._above: Noun | None = None
        panels = panels or {"": modules or {}}
        self._modules = {
            word: module for panel in panels.values() for word, module in panel.items()
        }
        self._panels = {word: title for title, panel in panels.items() for word in panel}
        self._verbs: dict[str, CommandInfo] = {}
        self._nouns: dict[str, Noun] = {}

    def add_verb(self, verb: CommandInfo) -> None:
        """A word that does something. Raises ValueError when `modules` leaves it out."""
        self._verbs[self._listed(verb.name)] = verb

    def add_noun(self, noun: Noun) -> None:
        """A word with words of its own. Raises ValueError when `modules` leaves it out."""
        self._nouns[self._listed(noun.info.name)] = noun
        noun._above = self

    @property
    def path(self) -> str:
        """The words before this noun's own words, without the program: `db backup`."""
        if self._above is None:
            return ""
        return f"{self._above.path} {self.info.name}".strip()

    def words(self) -> list[str]:
        """All that may follow this noun, in the order of --help."""
        return list(self._modules) or [*self._verbs, *self._nouns]

    def read(self, word: str) -> Any:
        """What stands for `word` in the command line (Typer names no type for it).

        Raises KeyError when no such word follows this noun.
        """
        if word in self._modules:
            import_module(self._modules[word])
        command = self._read(word)
        command.rich_help_panel = self._panels.get(word) or None
        return command

    def _read(self, word: str) -> Any:
        if word in self._nouns:
            return get_group(self._nouns[word])
        command = get_command_from_info(
            self._verbs[word],
            pretty_exceptions_short=self.pretty_exceptions_short,
            rich_markup_mode=self.rich_markup_mode,
        )
        for parameter in command.params:
            if parameter.param_type_name == "argument":
                _name_argument(parameter)
        return command

    def _listed(self, word: str | None) -> str:
        if word is None or (self._modules and word not in self._modules):
            raise ValueError(f"{word!r} is not in the table of words of {self.info.name!r}")
        return word


class _Words(MutableMapping[str, Any]):
    """The words of a noun as Typer asks for them: by name, or all in order."""

    def __init__(self, noun: Noun) -> None:
        self._noun = noun
        self._read: dict[str, Any] = {}

    def __getitem__(self, word: str) -> Any:
        if word not in self._read:
            if word not in self._noun.words():
                raise KeyError(word)
            self._read[word] = self._noun.read(word)
        return self._read[word]

    def __setitem__(self, word: str, command: Any) -> None:
        self._read[word] = command

    def __delitem__(self, word: str) -> None:
        del self._read[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._noun.words())

    def __len__(self) -> int:
        return len(self._noun.words())


def _name_argument(argument: Any) -> None:
    """Help, usage and errors show arguments as `NAME`, or `[NAME]` where it may be left out."""
    shown = argument.metavar or argument.name.upper().replace("_", "-")
    argument.metavar = shown
    usage = shown if argument.required else f"[{shown}]"
    argument.get_usage_pieces = lambda _context: [usage]


def _nothing() -> None:
    pass


def _group_of(noun: Noun) -> type[TyperGroup]:
    """Typer makes its groups itself: the class is how one gets to know its noun."""

    class NounGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = _Words(noun)

        def list_commands(self, ctx: Any) -> list[str]:
            del ctx
            return noun.words()

    return NounGroup
