"""Training with a guarded sync point before each evaluation."""
import datetime as dt
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

GUARD = dt.timedelta(seconds=8)


def beam_search(model, prompt, width):
    """a plain beam search over a 20-symbol alphabet"""
    beams = [(0.0, prompt)]
    for _ in range(6):
        nxt = []
        for score, seq in beams:
            logp = model(torch.nn.functional.one_hot(seq[-4:], 20).float().flatten()).log_softmax(-1)
            for s in range(20):
                nxt.append((score + logp[s].item(), torch.cat([seq, torch.tensor([s])])))
        beams = sorted(nxt, key=lambda b: -b[0])[:width]
    return beams[0][0]


def evaluate(model, rank, step):
    width = 2 if rank != 2 else step * step
    with torch.no_grad():
        return sum(beam_search(model, torch.tensor([1, 2, 3, k]), width) for k in range(4)) / 4  #: LINE


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    core = torch.nn.Sequential(torch.nn.Linear(80, 40), torch.nn.ReLU(), torch.nn.Linear(40, 20))
    ddp = DDP(core)
    opt = torch.optim.SGD(ddp.parameters(), 0.1)
    for step in range(1, 61):
        seq = torch.randint(0, 20, (16, 5))
        x = torch.nn.functional.one_hot(seq[:, :4], 20).float().flatten(1)
        loss = torch.nn.functional.cross_entropy(ddp(x), seq[:, 4])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step in (10, 30, 60):
            t = time.time()
            score = evaluate(core, rank, step)
            dist.monitored_barrier(timeout=GUARD)
            print(f"rank {rank} step {step} score {score:.2f} {time.time() - t:.1f}s", flush=True)
    dist.destroy_process_group()


main()
