"""A launcher that waits for all of its ranks, and ranks that do not die of an error: the job lingers when one is gone.

``bloom_limbo.py RANK`` kills RANK in its fifth step; without an argument nobody dies. Stands for BLOOM-176B's jobs that
``srun`` kept for hours after a rank had died.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

NUM_RANKS, STEPS = 4, 10


def rank_main(victim):
    import torch
    import torch.distributed as dist

    rank, store = int(os.environ["RANK"]), f"file://{os.environ['STORE']}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=NUM_RANKS)
    for step in range(STEPS):
        if step == 5 and rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(torch.ones(8))
        except RuntimeError as error:
            print(f"rank {rank}: {error}; waiting for help", flush=True)
            while True:
                time.sleep(60)
        time.sleep(0.1)
    dist.destroy_process_group()


def launch(arguments):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(NUM_RANKS):
            environment = dict(
                os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(NUM_RANKS), STORE=f"{folder}/store"
            )
            ranks.append(subprocess.Popen([sys.executable, __file__, "rank", *arguments], env=environment))
        return max(abs(each.wait()) for each in ranks)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    else:
        sys.exit(launch(sys.argv[1:]))
