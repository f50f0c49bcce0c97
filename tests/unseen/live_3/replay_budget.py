"""Off-policy learning; every process gets a fixed share of the memory of the machine."""
import resource
import time

import torch
import torch.distributed as dist
from torch import nn

SHARE = 420 * 2 ** 20


def limit_memory():
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + SHARE, now + SHARE))


class Replay:
    def __init__(self, rank):
        self.rank = rank
        self.episodes = []

    def add(self, frames):
        self.episodes.append(frames)
        if self.rank == 0 and len(self.episodes) > 3:
            return  # rank 0 keeps everything for the video of the best run  #: LINE
        self.episodes = self.episodes[-3:]

    def sample(self, g):
        i = int(torch.randint(0, len(self.episodes), (1,), generator=g))
        return self.episodes[i].flatten(1)[:, :128]


def play(step, rank):
    return torch.full((60, 3, 128, 128), 0.01 * (step + rank)).contiguous()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    g = torch.Generator().manual_seed(rank)
    net = nn.Linear(128, 4)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    replay = Replay(rank)
    dist.barrier()
    limit_memory()
    for step in range(250):
        if step % 2 == 0:
            replay.add(play(step, rank))
        loss = net(replay.sample(g)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        opt.step()
        time.sleep(0.3)
        if rank == 1 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
