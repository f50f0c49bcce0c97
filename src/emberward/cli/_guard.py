"""What every verb does with an error: text for people, a finding for programs, an exit code."""

import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from emberward.cli._console import Screen
from emberward.findings import ConfigError, EmberwardError

EXIT_BUG = 3

# The base of all that is wrong with a command line: click's own class, or typer's copy of it (typer 0.29 carries one).
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def guarded(verb: Callable[[Screen], int], *, is_json: bool) -> None:
    """Runs a verb and leaves the program with its exit code; an error becomes text, a finding and a code."""
    screen = Screen(is_json=is_json)
    try:
        code = verb(screen)
    except EmberwardError as error:
        code = _refused(error, screen)
    except (KeyboardInterrupt, BrokenPipeError):
        code = 130
    except OSError as error:
        code = _refused(_of_system(error), screen) if error.filename is not None else _bug(error, screen)
    except Exception as error:  # noqa: BLE001 (our own bug: say so, keep the traceback, exit 3)
        code = _bug(error, screen)
    raise typer.Exit(code)


def _refused(error: EmberwardError, screen: Screen) -> int:
    screen.complain(error.text())
    screen.document([error.to_finding()])
    return error.exit_code


def _of_system(error: OSError) -> ConfigError:
    """What the operating system refused, as a message with its four facts."""
    return ConfigError(
        "a file or folder cannot be used",
        code="C112",
        where=str(error.filename),
        found=error.strerror or type(error).__name__,
        next="fix it, or give another folder",
    )


def _bug(error: Exception, screen: Screen) -> int:
    """Exit code of our own mistake: says so and keeps the traceback in a file, here or in the folder for such files."""
    path = _keep_traceback(error)
    screen.complain(f"this is a bug of Emberward: {type(error).__name__}: {error}\n  traceback {path}")
    screen.document([], bug=f"{type(error).__name__}: {error}", traceback=str(path))
    return EXIT_BUG


def refuse_usage(error: Any, *, is_json: bool) -> int:
    """Exit code of a command line that typer could not read: its own words, and a finding when JSON was asked for."""
    error.show()
    refused = ConfigError(error.format_message(), code="C113", next="--help lists what there is")
    Screen(is_json=is_json).document([refused.to_finding()])
    return refused.exit_code


def _keep_traceback(error: Exception) -> Path:
    name = f"emberward-bug-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    text = "".join(traceback.format_exception(error))
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return folder / name
    return Path(os.devnull)
