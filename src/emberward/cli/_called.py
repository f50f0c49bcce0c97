"""How the person called the program, so that commands are shown as they can be typed again."""

import shutil
import sys
from functools import cache
from pathlib import Path

import typer

from emberward.findings import PROGRAM


@cache
def called_as() -> str:
    """What to type for the program from the current folder."""
    return program_name(Path(sys.argv[0]), on_path=shutil.which(PROGRAM), here=Path.cwd())


def program_name(called: Path, *, on_path: str | None, here: Path) -> str:
    """How a person in folder `here` can call the program that was called as `called`: by name alone, or by its path."""
    called = called.absolute()
    if called.name != PROGRAM or (on_path is not None and Path(on_path).absolute() == called):
        return PROGRAM
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def option_names(context: typer.Context) -> tuple[str, ...]:
    """The long options of the command that runs."""
    return tuple(name for param in context.command.params for name in param.opts if name.startswith("--"))
