"""Runs a command for as long as whoever started us lives: ``python -m emberward.supervise.leash ASKED COMMAND``.

Our standard input is a pipe from that process, over ssh too; its end, for whatever reason, sends SIGTERM to the
command. The first signal to us, as SLURM's before a time limit, makes the file ASKED: whoever started us asks the ranks
of all hosts to save then. Later ones are passed on. The exit code is the command's, 128 + n for signal n.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType


def main(asked: Path, command: Sequence[str]) -> int:
    """Runs the command to its end and returns its exit code; blocks."""
    # A session of its own: SLURM signals the whole process group of its task.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    is_asked = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        if not is_asked:
            is_asked = True
            with contextlib.suppress(OSError):
                asked.touch()
                return
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)

    def hold() -> None:
        while os.read(0, 4096):
            pass
        child.terminate()

    threading.Thread(target=hold, name="leash", daemon=True).start()
    code = child.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), sys.argv[2:]))
