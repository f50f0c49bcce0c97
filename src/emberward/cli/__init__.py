"""The door: arguments, environment, exit codes, standard output. Wires the rooms together and decides nothing else.

Torch is never imported here: what needs it runs in child processes or is imported when a verb asks for it.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of
from emberward.cli._call import main
from emberward.cli._main import app_of

if TYPE_CHECKING:
    from emberward.cli._python_run import Run  # what a notebook loads, and no verb
else:
    __getattr__ = face_of(__name__)

__all__ = ["Run", "app_of", "main"]
