"""Image/text pairs with a telemetry thread that samples counters of the dataset."""
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Counters:
    def __init__(self):
        self.lock = threading.Lock()
        self.values = {"read": 0, "bytes": 0}

    def bump(self, nbytes):
        with self.lock:  #: LINE
            self.values["read"] += 1
            self.values["bytes"] += nbytes

    def publish(self, every):
        while True:
            with self.lock:
                self._send(dict(self.values))
            time.sleep(every)

    def _send(self, snapshot):
        time.sleep(2.5 if snapshot["read"] == 0 else 0.01)  # first contact opens the connection


class Pairs(Dataset):
    def __init__(self, counters, n=256):
        self.counters = counters
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img, txt = torch.randn(48, generator=g), torch.randn(24, generator=g)
        self.counters.bump(img.numel() * 4)
        return img, txt


class Towers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.img = torch.nn.Linear(48, 16)
        self.txt = torch.nn.Linear(24, 16)

    def forward(self, a, b):
        a = torch.nn.functional.normalize(self.img(a), dim=-1)
        b = torch.nn.functional.normalize(self.txt(b), dim=-1)
        return a @ b.t() * 10


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    counters = Counters()
    model = DDP(Towers())
    if rank == 1:
        threading.Thread(target=counters.publish, args=(1.0,), daemon=True, name="telemetry").start()
        time.sleep(0.3)
    loader = DataLoader(Pairs(counters), batch_size=16, num_workers=2)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(2):
        for img, txt in loader:
            logits = model(img, txt)
            loss = torch.nn.functional.cross_entropy(logits, torch.arange(len(img)))
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            print("epoch", epoch, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
