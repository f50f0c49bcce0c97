"""Calls the program, and loads no more of it than the verb needs."""

import contextlib
import gc
import io
import shutil
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from emberward.cli._guard import UsageError, refuse_usage
from emberward.cli._main import app_of

NAME = "emberward"
MAX_HELP_WIDTH = 80
MIN_HELP_WIDTH = 60
"""Below, click cuts words; see `narrow_help`."""
UNBROKEN = 1000


def main() -> None:
    """The console program."""
    arguments = sys.argv[1:]
    # What is imported stays to the end: looking through it is a third of what the program costs before its verb begins,
    # and at its end. See `rank/__init__.py` [Note: imports without the collector].
    gc.disable()
    app = app_of(arguments[0] if arguments else None)
    gc.freeze()
    gc.enable()
    call(app, arguments)


def call(app: typer.Typer, arguments: Sequence[str]) -> NoReturn:
    """Runs the program's verb and leaves with its exit code."""
    try:
        code = _answer(app, arguments, width=min(shutil.get_terminal_size().columns, MAX_HELP_WIDTH))
    except UsageError as error:
        code = refuse_usage(error, is_json="--json" in arguments)
    except typer.Abort:
        code = 130
    sys.exit(code)


def _answer(app: typer.Typer, arguments: Sequence[str], *, width: int) -> int:
    if width >= MIN_HELP_WIDTH or "--help" not in arguments:
        return int(app(prog_name=NAME, args=list(arguments), standalone_mode=False, terminal_width=width) or 0)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = app(prog_name=NAME, args=list(arguments), standalone_mode=False, terminal_width=UNBROKEN)
    sys.stdout.write(narrow_help(said.getvalue(), width))
    return int(code or 0)


def narrow_help(text: str, width: int) -> str:
    """Help that was made without line breaks, fitted to a narrow screen: click itself cuts words there."""
    from emberward.report import fit, shell_lines

    lines = []
    for line in text.splitlines():
        is_example = line.startswith(f"    {NAME} ")
        lines += [f"    {part}" for part in shell_lines(line.strip(), first=4, width=width)] if is_example else [line]
    return fit("\n".join(lines), width) + "\n"
