import statistics
import time

import torch
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from lines import Delays, timetable


def main(steps=60, batch=160):
    torch.manual_seed(0)
    path, minutes, late = timetable()
    model = Delays()
    smooth = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    order, times = torch.randperm(len(late)), []
    began = time.perf_counter()
    for step in range(steps):
        picked = order[step * batch : (step + 1) * batch]
        loss = F.l1_loss(model(path[picked], minutes[picked]), late[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smooth.update_parameters(model)
        now = time.perf_counter()
        times.append(1e3 * (now - began))
        began = now
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
