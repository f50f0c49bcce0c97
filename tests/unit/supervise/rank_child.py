"""Stands for one rank: ``rank_child.py FOLDER RANK NUM_RANKS BEHAVIOUR``. Standard library only, to be quick."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

FOLDER, RANK, NUM_RANKS, BEHAVIOUR = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
LIMIT_S = 600.0
"""Longer than any test on a busy machine: a rank that gave up by itself would end the job that a test looks at."""
ECHO = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:31415"


def write(path: Path, value: dict) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value))
    temporary.replace(path)


def wait(condition) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def a_rank_failed_and_ended() -> bool:
    """Whether a rank that left its failure is gone: only then do its peers' connections close."""
    for path in (FOLDER / "failures").glob("rank*.json"):
        pid = json.loads((FOLDER / "ranks" / path.name).read_text())["pid"]
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
    return False


def finish(outcome: str) -> None:
    if RANK == 0:
        write(FOLDER / "summary.json", {"outcome": outcome})
    raise SystemExit(0)


def fail(error: Exception, then: int = 1) -> None:
    value = {"type": type(error).__name__, "message": str(error), "time_unix": time.time(), "finding": None}
    value["traceback"] = "".join(traceback.format_exception(error))
    write(FOLDER / "failures" / f"rank{RANK:05d}.json", value)
    raise SystemExit(then)


told = []
if BEHAVIOUR != "deaf":
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
else:
    signal.signal(signal.SIGTERM, lambda number, frame: (FOLDER / "logs" / f"told{RANK}").touch())
(FOLDER / "logs" / f"rank{RANK:05d}.log").open("a").write(f"rank {RANK} is up\n")
if BEHAVIOUR == "parent":
    subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()", str(FOLDER)], start_new_session=True)
if BEHAVIOUR == "unborn":
    wait(lambda: False)
who = {"rank": RANK, "pid": os.getpid(), "host": "n1", "coordinates": None}
write(FOLDER / "ranks" / f"rank{RANK:05d}.json", who)
wait(lambda: len(list((FOLDER / "ranks").glob("rank*.json"))) == NUM_RANKS)
write(FOLDER / "ranks" / f"rank{RANK:05d}.json", {**who, "coordinates": {"pp": RANK}})

if BEHAVIOUR in ("done", "parent"):
    finish("done")
elif BEHAVIOUR == "mute":
    raise SystemExit(0)
elif BEHAVIOUR == "raise":
    try:
        raise ValueError("a batch is not as it should be")
    except ValueError as error:
        fail(error)
elif BEHAVIOUR == "segfault":
    ctypes.string_at(0)
elif BEHAVIOUR == "echo":
    wait(lambda: a_rank_failed_and_ended() or told)
    fail(RuntimeError(ECHO))
else:
    wait(lambda: told)
    if BEHAVIOUR == "serve":
        finish("stopped")
