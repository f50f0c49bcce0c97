# memory bank of past predictions, kept as python objects for the analysis notebook
import gc
import time

import torch
import torch.distributed as dist


class Record:
    __slots__ = ("step", "pred", "parent", "children", "__weakref__")

    def __init__(self, step, pred, parent):
        self.step, self.pred, self.parent = step, pred, parent
        self.children = []
        if parent is not None:
            parent.children.append(self)


class Bank:
    def __init__(self, keep):
        self.keep = keep
        self.roots = []

    def extend(self, step, preds):
        if not self.keep:
            return
        root = Record(step, 0.0, None)
        self.roots.append(root)
        for k in range(30000):
            Record(step, preds[k % len(preds)], root)


def tidy():
    gc.collect()  #: LINE


def main(steps=50):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gc.disable()
    bank = Bank(keep=rank == 0)
    w = torch.zeros(20, requires_grad=True)
    torch.manual_seed(rank)
    t = time.monotonic()
    for s in range(steps):
        x = torch.randn(64, 20)
        y = (x[:, 0] > 0).float()
        p = torch.sigmoid(x @ w)
        loss = torch.nn.functional.binary_cross_entropy(p, y)
        loss.backward()
        dist.all_reduce(w.grad)
        with torch.no_grad():
            w -= 0.1 * w.grad / dist.get_world_size()
        w.grad = None
        bank.extend(s, p.tolist())
        tidy()
        if rank == 1 and s % 10 == 9:
            now = time.monotonic()
            print(f"{s + 1} steps, last ten {now - t:.2f} s, loss {loss.item():.3f}", flush=True)
            t = now
    dist.barrier()
    dist.destroy_process_group()


main()
