"""Command lines: torchrun's habits on top of argparse, and errors that say what to do next."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from hpc_elastic.errors import UsageError


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Knows the terminal's width by itself: argparse asks `shutil`, at the making of every parser.

    That module brings three compressors along, 2 ms of every agent's start.
    """

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **kwargs})


def _columns() -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    try:
        return os.get_terminal_size().columns or 80
    except (OSError, ValueError):  # standard output is no terminal, or closed
        return 80


class CommandParser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError`, and can leave the rest of the line alone.

    Every long option is accepted with dashes and with underscores. Nothing is abbreviated: a
    prefix that is unique today would change its meaning with the next option.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(**kwargs)
        self._rest: str | None = None

    def keep_rest(self, dest: str) -> None:
        """Store everything from the first word that is no option on, untouched, under `dest`.

        A `--` in front of that word is dropped; one behind it belongs to the rest. argparse's own
        REMAINDER loses the latter and takes an option's value for the first word.
        """
        self._rest = dest

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does; an unknown option is an error that names the nearest known one."""
        words = list(args or ())
        self._add_underscored()
        if self._rest is None:
            return self._parsed(words, namespace)
        cut = self._first_word(words)
        known, unknown = self._parsed(words[:cut], namespace)
        rest = words[cut:]
        setattr(known, self._rest, rest[1:] if rest[:1] == ["--"] else rest)
        return known, unknown

    def _parsed(
        self, words: list[str], namespace: argparse.Namespace | None
    ) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = super().parse_known_args(words, namespace)
        for action in self._actions:
            # Of `--option=--` argparse makes an empty list, whatever the type (until Python 3.12).
            if action.nargs is None and action.default != [] and getattr(known, action.dest, None) == []:
                self.error(f"argument {'/'.join(action.option_strings)}: expected a value, got --")
        return known, unknown

    def refuse_unknown(self, unknown: Sequence[str]) -> None:
        """Raise for the first word that nobody knows."""
        if unknown:
            self.error(self._unknown(unknown[0]))

    def _add_underscored(self) -> None:
        for option, action in list(self._option_string_actions.items()):
            if option.startswith("--"):
                self._option_string_actions.setdefault("--" + option[2:].replace("-", "_"), action)

    def _first_word(self, words: Sequence[str]) -> int:
        """Where the rest begins: the first word that is neither an option nor an option's value."""
        at = 0
        while at < len(words):
            word = words[at]
            if word == "--" or not word.startswith("-") or word == "-":
                return at
            at += 1 + self._values_after(word)
        return len(words)

    def _values_after(self, word: str) -> int:
        """How many of the following words belong to the option `word`."""
        name = word.partition("=")[0]
        action = self._option_string_actions.get(name)
        if action is None and not word.startswith("--"):
            name, action = word[:2], self._option_string_actions.get(word[:2])
        if action is None:
            self.error(self._unknown(name))
        joined = word != name
        return 0 if joined or action.nargs == 0 else 1

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {word!r}"
        import difflib  # for a mistake only

        from hpc_elastic.cli import torchrun

        dashed = word.partition("=")[0].replace("_", "-")
        if (instead := torchrun.instead_of(dashed)) is not None and self._rest is not None:
            return f"torchrun's {dashed} is no option here; {instead}"
        known = [name for name in self._option_string_actions if "_" not in name]
        # A word that begins, or goes on, like an option means that one; the short ones are like everything.
        begun = [name for name in known if dashed[:6] == name[:6] and len(dashed) > 5]
        near = difflib.get_close_matches(dashed, begun or known, n=1, cutoff=0.3 if begun else 0.6)
        return f"unknown option {word!r}" + (f"; did you mean {near[0]}?" if near else "")


class SubcommandParser(CommandParser):
    """The parser of one subcommand, which knows best what a word was meant to be."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as `CommandParser` does; nothing that is unknown is left to the command."""
        known, unknown = super().parse_known_args(args, namespace)
        self.refuse_unknown(unknown)
        return known, []
