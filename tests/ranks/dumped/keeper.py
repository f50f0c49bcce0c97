"""Runs a program as a rank of a plain job and writes its flight recorder when asked: nothing of Emberward is loaded.

``python keeper.py PROGRAM NAME FOLDER [SECONDS]`` under torchrun, or ``python keeper.py --fork WORLD PROGRAM ...``,
which loads torch once and forks the ranks with torchrun's variables. ``FOLDER/dump.N`` asks for dump N of every rank.
"""

import os
import runpy
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed


def keep(folder, rank):
    """Writes ``dumpN_rank_R`` each time that ``dump.N`` appears, and the rank's number and process at the start."""
    (folder / f"pid.{rank}").write_text(str(os.getpid()))
    number = 0
    while True:
        if (folder / f"dump.{number}").exists():
            data = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
            part = folder / f".dump{number}_{rank}"
            part.write_bytes(data)
            part.rename(folder / f"dump{number}_rank_{rank}")
            number += 1
        time.sleep(0.05)


def run(argv):
    """Runs the program in this process, as Python would run the script."""
    folder, rank = Path(argv[2]), int(os.environ["RANK"])
    threading.Thread(target=keep, args=(folder, rank), name="keeper", daemon=True).start()
    sys.argv = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    runpy.run_path(argv[0], run_name="__main__")


def fork_ranks(world, argv):
    """Forks the ranks and returns in each of them; the parent waits for all and ends."""
    import torch._inductor  # what a dump with stacks imports
    import torch.distributed.fsdp
    import torch.nn.parallel
    import torch.utils.data  # noqa: F401 (loaded here for all ranks)

    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank))
            log = os.open(str(Path(argv[2]) / f"log.{rank}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            return
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    os._exit(0)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "--fork":
        fork_ranks(int(words[1]), words[2:])
        words = words[2:]
    run(words)
