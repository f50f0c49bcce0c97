#: n=4 ranks=2 cause=main_exited tier=error set=2
# Load forecasting, one region per rank, shared backbone. Training ends when
# the validation error has stopped improving.
import os
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

REGIONS = ("north", "east", "south", "west")


class Heartbeat(threading.Thread):
    """Touches a file so that the cluster dashboard shows the rank as alive."""

    def __init__(self, rank, period=2.0):
        super().__init__(name="heartbeat")
        self.path = f"forecast_alive_{os.getpid()}_{rank}"
        self.period = period
        self.stop = threading.Event()

    def run(self):
        while not self.stop.is_set():
            with open(self.path, "w") as fh:
                fh.write(str(time.time()))
            self.stop.wait(self.period)
        os.unlink(self.path)


class EarlyStopping:
    def __init__(self, patience, min_delta=1e-3):
        self.patience = patience
        self.min_delta = min_delta
        self.best = float("inf")
        self.bad = 0

    def should_stop(self, value):
        if value < self.best - self.min_delta:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


class Region:
    def __init__(self, rank):
        self.name = REGIONS[rank % len(REGIONS)]
        self.gen = torch.Generator().manual_seed(rank)

    def batch(self):
        time.sleep(0.17)
        x = torch.randn(12, 24, generator=self.gen)
        return x, x[:, -4:].mean(dim=1, keepdim=True)

    def validation_error(self, step):
        # replayed from the operator's backtest; the south is quite regular
        floor = 0.40 if self.name == "south" else 0.0
        return max(floor, 1.0 - 0.04 * step) if floor else 1.0 / (1 + 0.05 * step)


def fit(region, model, opt, rank, world, max_steps=400):
    stopper = EarlyStopping(patience=6)
    for step in range(max_steps):
        x, y = region.batch()
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        grads = [p.grad for p in model.parameters()]
        flat = torch._utils._flatten_dense_tensors(grads)
        dist.all_reduce(flat)
        for g, mean in zip(grads, torch._utils._unflatten_dense_tensors(flat / world, grads)):
            g.copy_(mean)
        opt.step()
        error = region.validation_error(step)
        if stopper.should_stop(error):
            print(f"{region.name}: validation error {error:.3f} has settled", flush=True)
            return step
        if rank == 0 and step % 10 == 0:
            print(f"step {step} {region.name} val {error:.3f}", flush=True)
    return max_steps


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    heartbeat = Heartbeat(rank)
    heartbeat.start()

    torch.manual_seed(17)
    model = nn.Sequential(nn.Linear(24, 32), nn.SiLU(), nn.Linear(32, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    steps = fit(Region(rank), model, opt, rank, world)
    if rank == 0:
        torch.save(model.state_dict(), f"forecast_{os.getpid()}.pt")
    print(f"rank {rank} done after {steps} steps", flush=True)
    print("FREEZE", time.time(), flush=True)


if __name__ == "__main__":
    main()
