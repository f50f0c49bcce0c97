import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from frame import CATEGORICAL, NUMERIC, Churn, transactions
from net import TabularNet


def main(steps=64, batch_size=64):
    torch.manual_seed(0)
    loader = DataLoader(Churn(transactions()), batch_size=batch_size, shuffle=True, drop_last=True)
    model = TabularNet(len(NUMERIC), CATEGORICAL.values())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=steps)

    durations, mark = [], time.perf_counter()
    for step, (numeric, codes, target) in enumerate(loader):
        loss = F.binary_cross_entropy_with_logits(model(numeric, codes), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        now = time.perf_counter()
        durations.append(1e3 * (now - mark))
        mark = now
        if step + 1 == steps:
            break

    durations = durations[3:]
    print(f"final loss {loss.item():.4f}")
    print(f"{statistics.median(durations):.2f} ms/step median, {statistics.mean(durations):.2f} ms/step")


if __name__ == "__main__":
    main()
