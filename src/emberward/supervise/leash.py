"""Runs a command for as long as whoever started us lives: ``python -m emberward.supervise.leash COMMAND``.

Our standard input is a pipe from that process, over ssh too; its end, for whatever reason, sends SIGTERM to the
command. Signals to us are passed on. The exit code is the command's, 128 + n for signal n.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType


def main(command: Sequence[str]) -> int:
    """Runs the command to its end and returns its exit code; blocks."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def pass_on(number: int, frame: FrameType | None) -> None:
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
    os._exit(main(sys.argv[1:]))
