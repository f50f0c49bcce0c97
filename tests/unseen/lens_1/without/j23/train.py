import time

import accel
import torch
from mining import hard_examples
from torch import nn

BOXES = 500


def propose(n, gen):
    """Boxes and their overlaps, made on the host."""
    lo = torch.rand(n, 2, generator=gen)
    hi = lo + torch.rand(n, 2, generator=gen) * 0.3
    inter = (torch.min(hi[:, None], hi[None]) - torch.max(lo[:, None], lo[None])).clamp(min=0).prod(2)
    area = (hi - lo).prod(1)
    iou = inter / (area[:, None] + area[None] - inter)
    return torch.cat([lo, hi, iou.topk(12, 1).values], 1), (iou.mean(1) > 0.03).long()


def main():
    gen = torch.Generator().manual_seed(21)
    head = accel.attach(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)), 6.0, 12.0)
    opt = torch.optim.SGD(head.parameters(), lr=0.02)
    steps, positives, level = 32, 0, 0.0
    for step in range(steps):
        if step == 2:
            accel.stream.synchronize()
            t0 = time.perf_counter()
        boxes, labels = propose(BOXES, gen)
        logits = head(accel.to_device(boxes))
        losses = nn.functional.cross_entropy(logits, labels, reduction="none")
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        level = level * 0.9 + 0.1 * hard_examples(losses.detach(), 0.3)
    accel.stream.synchronize()
    t1 = time.perf_counter()
    print(f"positives {positives} level {float(level):.3f} {(t1 - t0) / (steps - 2) * 1000:.2f} ms/step", flush=True)


if __name__ == "__main__":
    main()
