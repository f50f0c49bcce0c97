import statistics
from time import perf_counter

import torch
from torch.utils.data import DataLoader

from ecg import Recordings, build, collate

torch.manual_seed(1)
loader = DataLoader(Recordings(), batch_size=12, shuffle=True, collate_fn=collate, drop_last=True)
model = build()
opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 62)
times, done, right, seen = [], 0, 0, 0
start = perf_counter()
while done < 62:
    for strips, labels in loader:
        logits = model(strips)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        right += (logits.argmax(1) == labels).sum()
        seen += len(labels)
        now = perf_counter()
        times.append(1e3 * (now - start))
        start = now
        done += 1
        if done == 62:
            break
print(f"accuracy {right.item() / seen:.3f}")
times = times[3:]
print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
