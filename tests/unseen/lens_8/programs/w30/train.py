"""DDP over sequences that are fetched from an object store."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from pace import Pace
from store import RemoteRecords

STEPS = 62
BATCH = 16


class Tagger(nn.Module):
    def __init__(self, width=192, depth=2):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 16)

    def forward(self, x):
        return self.head(self.body(x)[:, :8].mean(1))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    data = RemoteRecords(STEPS * BATCH * world, seed=rank)
    sampler = DistributedSampler(data, world, rank, shuffle=True, drop_last=True)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler, num_workers=1, prefetch_factor=2)
    model = DDP(Tagger())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    pace = Pace()
    for step, (records, labels) in enumerate(loader):  #: LINE
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(records), labels)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"{step:4d} {loss.item():.4f}")
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
