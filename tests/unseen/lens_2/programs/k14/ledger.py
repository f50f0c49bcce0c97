import fcntl
import json
import os
import tempfile
import time

HOME = os.path.join(tempfile.gettempdir(), "ledger-" + os.environ.get("MASTER_PORT", "0"))


class Ledger:
    """Notes of the run in a file. The share takes its time to answer."""

    def __init__(self, rank):
        os.makedirs(HOME, exist_ok=True)
        self.rank = rank
        name = "all"
        self.path = os.path.join(HOME, name + ".jsonl")

    def note(self, **what):
        with open(self.path, "a") as f:
            line = json.dumps(what) + "\n"
            fcntl.flock(f, fcntl.LOCK_EX)  #: LINE
            time.sleep(0.018)
            f.write(line)
            f.flush()
            fcntl.flock(f, fcntl.LOCK_UN)
