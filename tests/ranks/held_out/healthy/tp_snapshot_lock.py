#: n=4 ok exit=0
import copy
import random
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class ParameterServerView:
    """Readers take the lock while they serialise; the optimizer takes it while it writes."""

    def __init__(self, seconds):
        self.lock = threading.RLock()
        self.seconds = seconds
        self.snapshots = 0

    def serialise(self, state, taken):
        with self.lock:
            taken.set()
            end = time.time() + self.seconds
            while time.time() < end:
                copy.deepcopy(state)
                time.sleep(0.05)
            self.snapshots += 1

    def start(self, state):
        taken = threading.Event()
        thread = threading.Thread(target=self.serialise, args=(state, taken), name="serialise", daemon=True)
        thread.start()
        taken.wait()
        return thread


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.down(torch.sigmoid(self.gate(x)) * self.up(x))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    torch.manual_seed(7)
    model = parallelize_module(
        MLP(), mesh["tp"], {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    view = ParameterServerView(random.Random(time.time_ns()).uniform(10, 45))
    data = torch.Generator().manual_seed(1)
    for step in range(40):
        time.sleep(0.15)
        x = torch.randn(4, 16, generator=data)
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        if step == 22 and rank == 3:
            view.start({i: [float(i)] * 100 for i in range(50)})
        with view.lock:
            opt.step()
        opt.zero_grad()
    dist.barrier()
    print(f"rank {rank} snapshots {view.snapshots}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
