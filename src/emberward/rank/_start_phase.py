"""What a rank does between its start and its first step, for who watches. No torch: importing it is a phase."""

import time

from emberward.report import RunFolder, write_json

IMPORTS = "importing torch"
MEETS = "comparing versions, recipe and data with the other ranks"
CONNECTS = "connecting the ranks"
GROUPS = "building the groups of ranks"
MODEL = "building the model"
DATA = "opening the data"
LOADS = "looking for a save to go on from"
FIRST_STEP = "running the first step"


def report_start(folder: RunFolder, what: str, *, rank: int) -> None:
    """Writes what rank 0 does now into ``progress.json``; nothing on the other ranks."""
    if rank == 0:
        write_json(folder.progress, {"phase": "setup", "detail": what, "time_unix": time.time()})
