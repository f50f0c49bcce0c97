"""The door: arguments, environment, exit codes, standard output. Wires the rooms together and decides nothing else.

Torch is never imported here: what needs it runs in child processes or is imported when a verb asks for it.
"""

from emberward.cli._main import app, main

__all__ = ["app", "main"]
