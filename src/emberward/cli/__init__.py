"""The door: arguments, environment, exit codes, standard output. Wires the rooms together and decides nothing else.

Torch is never imported here: what needs it runs in child processes or is imported when a verb asks for it.
"""

from typing import TYPE_CHECKING

from emberward.cli._call import main

if TYPE_CHECKING:
    from emberward.cli._main import app
    from emberward.cli._python_run import Run


def __getattr__(name: str) -> object:
    if name == "Run":
        from emberward.cli._python_run import Run  # what a notebook loads, and no verb

        return Run
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from emberward.cli import _main  # the whole program, with every room; `main` loads what its verb needs (PEP 562)

    return _main.app


__all__ = ["Run", "app", "main"]
