"""Owns a tree until it is killed: ``owner.py FOLDER MODE``. Writes the pids it started, and the folder it made."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import psutil

from emberward.processes import ProcessTree

PLACE, MODE = Path(sys.argv[1]), sys.argv[2]
SAVES = f"trap 'echo saved > {PLACE}/saved; exit 0' TERM; while :; do sleep 0.05; done"
# A process that leaves its parent, its session and its environment, as a daemon does.
ESCAPES = "setsid sh -c 'env -i sleep 1000 & env -i sleep 1000 &' & wait; sleep 1000; true"
NESTED = f"exec {sys.executable} {__file__} {PLACE / 'below'} plain"

tree = ProcessTree(grace_s=30.0 if MODE == "saves" else 0.0)
made = tree.folder("emberward-test-")
command = {"saves": SAVES, "plain": ESCAPES, "nested": NESTED}[MODE]
if MODE == "nested":
    (PLACE / "below").mkdir()
tree.start(["sh", "-c", command], environment=dict(os.environ))


def names() -> list[str]:
    found = []
    for process in tree.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(process.pid).name())
    return found


def is_up() -> bool:
    """Whether all that stays is there; the shell that leaves the daemons behind has ended before the third sleep."""
    if MODE == "nested":
        return (PLACE / "below" / "said").exists()
    return len(names()) >= 1 if MODE == "saves" else names().count("sleep") == 3


end_s = time.monotonic() + 60.0
while not is_up() and time.monotonic() < end_s:
    time.sleep(0.01)
found = tree.processes()
pids = sorted(process.pid for process in found)
(PLACE / "said.tmp").write_text(json.dumps({"pids": pids, "folder": str(made)}))
(PLACE / "said.tmp").rename(PLACE / "said")
time.sleep(60.0)
