"""Action recognition on short clips; the clips lie behind the media server."""
import os
import subprocess

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

MEDIA = os.environ["MEDIA_URL"]
CACHE = os.environ["CLIP_CACHE"]


def download(clip_id):
    path = f"{CACHE}/{clip_id}.bin"
    if not os.path.exists(path):
        tmp = f"{path}.{os.getpid()}"
        subprocess.run(["curl", "-s", "-f", "-o", tmp, f"{MEDIA}/clips/{clip_id}"], check=True)
        os.rename(tmp, path)
    return path


class Clips(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        with open(download(f"clip{i:05d}"), "rb") as f:
            raw = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)
        frames = raw[: 8 * 256].view(8, 256).float() / 255
        return frames, i % 5


class ClipNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.frame = nn.Linear(256, 64)
        self.time = nn.GRU(64, 64, batch_first=True)
        self.cls = nn.Linear(64, 5)

    def forward(self, clips):
        _, h = self.time(torch.relu(self.frame(clips)))
        return self.cls(h[-1])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    data = Clips(480)
    sampler = DistributedSampler(data, shuffle=True, seed=5)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=1)
    model = DDP(ClipNet())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    ce = nn.CrossEntropyLoss()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (clips, labels) in enumerate(loader):
            loss = ce(model(clips), labels)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
