"""Calls the program, and loads no more of it than the verb needs."""

import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from emberward.cli._guard import UsageError, refuse_usage


def main() -> None:
    """The console program."""
    arguments = sys.argv[1:]
    call(_app_for(arguments), arguments)


def call(app: typer.Typer, arguments: Sequence[str]) -> NoReturn:
    """Runs the program's verb and leaves with its exit code."""
    try:
        code = app(prog_name="emberward", args=list(arguments), standalone_mode=False)
    except UsageError as error:
        code = refuse_usage(error, is_json="--json" in arguments)
    except typer.Abort:
        code = 130
    sys.exit(code)


def _app_for(arguments: Sequence[str]) -> typer.Typer:
    """The whole program; for ``checkpoint`` that part alone.

    The rooms of all verbs take a processor second to load, longer than a conversion of some hundred megabytes.
    """
    if list(arguments[:1]) == ["checkpoint"]:
        from emberward.cli._checkpoint_app import app  # imported here for the time that it saves, as below

        return app
    from emberward.cli._main import app as whole

    return whole
