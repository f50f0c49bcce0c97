import statistics
import time

import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import OneCycleLR

from mosaic import Mosaic, groups, mosaics

STEPS, BATCH, LR = 60, 12, 2e-3

torch.manual_seed(0)
pictures, kinds = mosaics()
model = Mosaic()
layered = groups(model, LR)
optimizer = torch.optim.AdamW(layered, fused=True)
scheduler = OneCycleLR(optimizer, [group["lr"] for group in layered], total_steps=STEPS)

times = []
for step in range(STEPS):
    begin = time.perf_counter()
    picked = torch.randint(0, len(pictures), (BATCH,))
    loss = F.cross_entropy(model(pictures[picked]), kinds[picked])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    times.append(1e3 * (time.perf_counter() - begin))

print(f"loss {loss.item():.6f}, rates {', '.join(f'{rate:.2g}' for rate in scheduler.get_last_lr())}")
print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
