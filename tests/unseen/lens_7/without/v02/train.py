import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from archive import Archive
from steptime import StepTime

STEPS = 62


class Encoder(nn.Module):
    def __init__(self, dim=192, heads=4, layers=2, classes=20):
        super().__init__()
        self.up = nn.Linear(16, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim * 4, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.up(x.view(x.size(0), -1, 16))
        return self.head(self.body(x).mean(1))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = Archive(16 * 2 * 70, 384)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=4)
    clock = StepTime()
    for step, (x, y) in enumerate(loader):
        if step == STEPS:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        clock.tick()
    if rank == 0:
        clock.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
