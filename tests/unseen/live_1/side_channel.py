"""A statistics thread has a process group of its own next to the one of the trainer."""
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Stats(threading.Thread):
    def __init__(self, group, rounds):
        super().__init__(name="stats")
        self.group, self.rounds = group, rounds
        self.seen = 0
        self.lock = threading.Lock()

    def add(self, n):
        with self.lock:
            self.seen += n

    def run(self):
        for k in range(self.rounds):
            time.sleep(0.7)
            with self.lock:
                t = torch.tensor([self.seen])
            dist.all_reduce(t, group=self.group)
            if dist.get_rank() == 0:
                print(f"stats {k}: {t.item()} samples", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    own = dist.new_group(backend="gloo")
    torch.manual_seed(0)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(30, 30), torch.nn.ReLU(), torch.nn.Linear(30, 30)))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    stats = Stats(own, 12)
    stats.start()
    for step in range(150):
        x = torch.randn(8, 30)
        loss = (model(x) - x).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        stats.add(8)
        time.sleep(0.02 + 0.01 * (rank == 1))
    stats.join()
    dist.barrier()
    print("rank", rank, "ends", flush=True)
    dist.destroy_process_group()


main()
