#: n=8 ok exit=0
import os
import pickle
import random
import shutil
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard


class AsyncCheckpoint:
    """One write at a time: the next save first waits for the previous one."""

    def __init__(self, folder, slow_seconds):
        self.folder, self.slow_seconds = folder, slow_seconds
        self.thread = None

    def _write(self, path, state, seconds):
        blob = pickle.dumps(state)
        parts = max(1, int(seconds / 0.25))
        size = -(-len(blob) // parts)
        with open(path, "wb") as f:
            for i in range(parts):
                f.write(blob[i * size : (i + 1) * size])
                f.flush()
                time.sleep(0.25)

    def wait(self):
        if self.thread is not None:
            self.thread.join()
            self.thread = None

    def save(self, step, model, slow):
        self.wait()
        state = {k: v.to_local().detach().clone().tolist() for k, v in model.state_dict().items()}
        path = os.path.join(self.folder, f"{step}.pkl")
        self.thread = threading.Thread(target=self._write, args=(path, state, self.slow_seconds if slow else 0.5))
        self.thread.start()


class Layer(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.n, self.w = nn.LayerNorm(d), nn.Linear(d, d)

    def forward(self, x):
        return x + torch.relu(self.w(self.n(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.out = nn.Linear(16, 8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (8,))
    torch.manual_seed(1)
    model = Net()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for m in model.modules():
        if isinstance(m, FSDPModule):
            m.set_force_sum_reduction_for_comms(True)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    folder = tempfile.mkdtemp()
    ckpt = AsyncCheckpoint(folder, random.Random(time.time_ns()).uniform(10, 45))
    try:
        for step in range(1, 37):
            time.sleep(0.1)
            x = torch.randn(4, 16)
            loss = nn.functional.cross_entropy(model(x), x[:, :8].argmax(1))
            loss.backward()
            opt.step()
            opt.zero_grad()
            if step % 9 == 0:
                ckpt.save(step, model, slow=rank == 6 and step == 18)
        ckpt.wait()
        dist.barrier()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
