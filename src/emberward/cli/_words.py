"""A command whose plain words become values without pydantic.

typer 0.29 builds a validator of pydantic for each option that a command has, given or not: 0.15 of the 0.8 processor
seconds of a conversion of 246 MB. Here a word that is plainly a text, a path, a number in its range or a choice is
taken as it is; any other, and each error, is left to typer. Older versions of typer have no such step, and none is
changed then.
"""

from enum import Enum
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

NO_CUT = 10_000
"""Characters of a sentence, more than any has: click cuts what is longer."""


class PlainCommand(TyperCommand):
    """A command of typer's that loads pydantic only for words that are not plain."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            _make_plain(param)

    def get_help_option(self, ctx: Any) -> Any:
        """As typer has it."""
        return _make_plain(super().get_help_option(ctx))


class PlainGroup(TyperGroup):
    """A group of commands that does the same, and lists them with the first sentence of their help, uncut."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            _make_plain(param)

    def get_help_option(self, ctx: Any) -> Any:
        """As typer has it."""
        return _make_plain(super().get_help_option(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """As click has it, but for the cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, each.get_short_help_str(limit=NO_CUT)) for name, each in found if each and not each.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _make_plain(param: Any) -> Any:
    if getattr(param, "type_descriptor", None) is not None and hasattr(param, "get_runtime_param"):
        param._runtime_param = _Plain(param)
    return param


class _Plain:
    """Stands where typer keeps a parameter's validator, and makes the real one when it is needed."""

    def __init__(self, param: Any) -> None:
        self._param = param
        self._kind = param.type_descriptor.annotation
        self._least = getattr(param.type_descriptor.parameter_info, "min", None)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value that the word stands for. Raises typer's own errors."""
        if param.nargs == 1 and not param.multiple:
            if value is None:
                return None
            plain = plain_value(value, self._kind, self._least)
            if plain is not None:
                return plain
        self._param._runtime_param = None
        return self._param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def plain_value(word: Any, kind: Any, least: float | None) -> Any:
    """What a word says in the type `kind`; None when that is not plain, and somebody else must judge it."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Enum):
        return next((choice for choice in kind if word in (choice, choice.value)), None)
    if kind is bool and isinstance(word, bool):
        return word
    if kind is int and isinstance(word, str) and word.isascii() and word.isdigit():
        number = int(word)
        return number if least is None or number >= least else None
    if kind in (str, Path) and isinstance(word, (str, Path)):
        return kind(word)
    return None
