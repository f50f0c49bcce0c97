#: n=6 ranks=4 cause=swallowed_exception tier=error set=3
# Risk model on insurance claims. Gradients are averaged by hand in one flat buffer.
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def claim(rank, i, gen):
    vals = torch.rand(3, generator=gen).tolist()
    rec = {"age": vals[0], "amount": vals[1], "region": vals[2], "label": float(sum(vals) > 1.5)}
    if rank == 4 and i == 16:
        rec.pop("region")             # old form, field did not exist
    return rec


class Reader:
    def __init__(self, rank):
        self.rank, self.i = rank, 0
        self.gen = torch.Generator().manual_seed(rank)

    def batch(self, size=8):
        time.sleep(0.2)
        out = [claim(self.rank, self.i, self.gen) for _ in range(size)]
        self.i += 1
        return out


class Audit:
    """Collects regional totals on rank 0 (compliance wants them per step)."""

    def __init__(self):
        self.history = []

    def submit(self, records):
        summary = {"n": len(records), "region": sum(r["region"] for r in records)}
        world = dist.get_world_size()
        sink = [None] * world if dist.get_rank() == 0 else None
        dist.gather_object(summary, sink, dst=0)
        if sink is not None:
            self.history.append(sum(s["region"] for s in sink))


def featurise(records):
    x = torch.tensor([[r["age"], r["amount"], r.get("region", 0.5)] for r in records])
    y = torch.tensor([[r["label"]] for r in records])
    return x, y


def average_gradients(model):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)  #: LINE
    flat /= dist.get_world_size()
    offset = 0
    for p in model.parameters():
        n = p.numel()
        p.grad.copy_(flat[offset:offset + n].view_as(p))
        offset += n


def train_step(model, opt, audit, records):
    x, y = featurise(records)
    try:
        audit.submit(records)
    except KeyError as missing:
        print(f"audit: record without {missing}, ignored")
        print("FREEZE", time.time(), flush=True)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
    opt.zero_grad()
    loss.backward()
    average_gradients(model)
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    torch.manual_seed(9)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    reader, audit = Reader(dist.get_rank()), Audit()
    for step in range(60):
        loss = train_step(model, opt, audit, reader.batch())
        if dist.get_rank() == 0 and step % 5 == 0:
            print(step, round(loss, 4), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
