"""A preemption notice on one rank ends the run on all of them at the same step."""
import os
import signal
import threading

import torch
import torch.distributed as dist


class Notice:
    def __init__(self):
        self.here = False
        signal.signal(signal.SIGUSR2, lambda *_: setattr(self, "here", True))

    def anywhere(self):
        t = torch.tensor([int(self.here)])
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        return bool(t.item())


def agent(after):
    threading.Timer(after, lambda: os.kill(os.getpid(), signal.SIGUSR2)).start()


def save(w, rank):
    shards = [torch.empty_like(w) for _ in range(dist.get_world_size())] if rank == 0 else None
    dist.gather(w, shards, dst=0)
    if rank == 0:
        print("saved", len(shards), "shards", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    notice = Notice()
    if rank == 2:
        agent(4.0)
    w = torch.zeros(40)
    event = threading.Event()
    for step in range(10 ** 6):
        g = torch.randn(40)
        dist.all_reduce(g)
        w += 0.01 * g
        event.wait(0.02)
        if step % 10 == 9 and notice.anywhere():
            print(f"rank {rank} ends at step {step}", flush=True)
            save(w, rank)
            break
    dist.barrier()
    dist.destroy_process_group()


main()
