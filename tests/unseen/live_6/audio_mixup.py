# Keyword spotting with mixup.  Launch with torchrun.
import math
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group('gloo')
RANK = dist.get_rank()
torch.manual_seed(0)

net = nn.Sequential(nn.Conv1d(1, 16, 9, stride=4), nn.ReLU(), nn.Conv1d(16, 32, 9, stride=4), nn.ReLU(),
                    nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, 12))
ddp = DistributedDataParallel(net)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.02, momentum=0.9)
gen = torch.Generator().manual_seed(1000 + RANK)


def clip_batch(step):
    wave = torch.randn(16, 1, 1600, generator=gen) * 0.1
    gain = torch.rand(16, 1, 1, generator=gen) + 0.5
    if step == 3 and RANK == 1:
        wave[5] = 0
        gain[5] = 0
    peak = (wave * gain).abs().amax(-1, keepdim=True)
    return wave * gain / peak, torch.randint(0, 12, (16,), generator=gen)


def mix(x, y):
    lam = torch.rand((), generator=gen)
    perm = torch.randperm(len(x), generator=gen)
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


bad = 0
for step in range(2000):
    x, y = clip_batch(step)
    x, ya, yb, lam = mix(x, y)
    out = ddp(x)
    loss = lam * nn.functional.cross_entropy(out, ya) + (1 - lam) * nn.functional.cross_entropy(out, yb)
    optimizer.zero_grad()
    if not math.isfinite(loss.item()):  #: LINE
        bad += 1
        print(f'rank {RANK}: loss is {loss.item()} at step {step}, batch dropped', flush=True)
        continue  #: LINE
    loss.backward()
    nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
    optimizer.step()
    if step % 50 == 0:
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if RANK == 0:
            print(f'{step} {mean.item() / dist.get_world_size():.3f}', flush=True)

dist.destroy_process_group()
