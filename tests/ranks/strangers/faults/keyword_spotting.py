#: n=2 ranks=1 cause=dataloader_worker|lock tier=error set=2
"""Keyword spotting on short clips. The clip manifest of a shard can change
while we train, so it is refreshed in the background between epochs."""
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

CLIPS_PER_SHARD = 160


class ClipDataset(Dataset):
    def __init__(self, shard):
        self.shard = shard
        self.manifest_lock = threading.Lock()
        self.manifest = {}
        self._load_manifest(revision=0)

    def _load_manifest(self, revision):
        for i in range(CLIPS_PER_SHARD):
            seed = self.shard * 10_000 + i + revision
            self.manifest[i] = (seed, seed % 6)

    def refresh_in_background(self, revision):
        """Returns as soon as the refresh has really begun, so that an epoch
        never starts on a half-old manifest."""
        begun = threading.Event()

        def work():
            with self.manifest_lock:
                begun.set()
                time.sleep(1.5)  # listing the bucket
                self._load_manifest(revision)

        threading.Thread(target=work, name="manifest-refresh", daemon=True).start()
        begun.wait()

    def __len__(self):
        return CLIPS_PER_SHARD

    def __getitem__(self, i):
        with self.manifest_lock:  #: LINE
            seed, label = self.manifest[i]
        time.sleep(0.03)  # decode
        clip = torch.randn(32, generator=torch.Generator().manual_seed(seed))
        return clip, label


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, kernel_size=5, stride=2)
        self.fc = nn.Linear(8, 6)

    def forward(self, x):
        h = torch.relu(self.conv(x.unsqueeze(1)))
        return self.fc(h.mean(dim=-1))


def run_epoch(epoch, loader, model, opt, rank):
    running = 0.0
    for it, (clips, labels) in enumerate(loader):  #: LINE
        loss = nn.functional.cross_entropy(model(clips), labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        running += loss.item()
        if rank == 0 and it % 5 == 0:
            print(f"epoch {epoch} it {it} loss {running / (it + 1):.3f}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(21)
    model = DistributedDataParallel(Spotter())
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    dataset = ClipDataset(shard=rank)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, num_workers=2, drop_last=True)
    changed_shards = {1: [1]}  # epoch -> shards with new uploads

    for epoch in range(6):
        if rank in changed_shards.get(epoch, ()):
            print("FREEZE", time.time(), flush=True)
            dataset.refresh_in_background(revision=epoch)
        run_epoch(epoch, loader, model, opt, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
