"""What every verb does with an error: text for people, a finding for programs, an exit code."""

import os
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.findings import EmberwardError

EXIT_BUG = 3

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def guarded(verb: Callable[[Screen], int], *, is_json: bool) -> None:
    """Runs a verb and leaves the program with its exit code; an error becomes text, a finding and a code."""
    screen = Screen(is_json=is_json)
    try:
        code = verb(screen)
    except EmberwardError as error:
        screen.say(error.text())
        screen.document([error.to_finding()])
        code = error.exit_code
    except (KeyboardInterrupt, BrokenPipeError):
        code = 130
    except Exception as error:  # noqa: BLE001 (our own bug: say so, keep the traceback, exit 3)
        path = _keep_traceback(error)
        screen.say(f"this is a bug of Emberward: {type(error).__name__}: {error}\n  traceback {path}")
        screen.document([], bug=str(error), traceback=str(path))
        code = EXIT_BUG
    raise typer.Exit(code)


def _keep_traceback(error: Exception) -> Path:
    path = Path(f"emberward-bug-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.getpid()}.txt").absolute()
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path
