"""Stands for a launcher and its ranks: ``stub_job.py LAUNCHER BEHAVIOUR...``. Standard library only, to be quick.

A strict launcher ends the others when one failed, one in limbo waits on for ever, a renewing one starts the dead again.
"""

import os
import signal
import subprocess
import sys
import time

LIMIT_S = 60.0


def rank(behaviour: str) -> int:
    end = time.monotonic() + LIMIT_S
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while behaviour.startswith(("serve", "deaf")) and time.monotonic() < end:
        time.sleep(0.02)
    return 0


def start(number: int, behaviour: str) -> subprocess.Popen:
    environment = {**os.environ, "RANK": str(number)}
    return subprocess.Popen([sys.executable, __file__, "rank", behaviour], env=environment, start_new_session=True)


def launcher(kind: str, behaviours: list[str]) -> int:
    ranks = [start(number, behaviour) for number, behaviour in enumerate(behaviours)]
    end = time.monotonic() + LIMIT_S
    while any(process.poll() is None for process in ranks) and time.monotonic() < end:
        failed = [number for number, process in enumerate(ranks) if process.poll() not in (None, 0)]
        if failed and kind == "renew":
            for number in failed:
                ranks[number] = start(number, behaviours[number])
        elif failed and kind == "strict":
            for process in ranks:
                process.terminate()
        time.sleep(0.02)
    return 1 if any(process.returncode for process in ranks) else 0


if __name__ == "__main__":
    raise SystemExit(rank(sys.argv[2]) if sys.argv[1] == "rank" else launcher(sys.argv[1], sys.argv[2:]))
