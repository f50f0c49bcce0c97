"""DDP training on audio clips from a network disk."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from pace import Pace
from records import Clips

STEPS = 60
BATCH = 12


class Net(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv1d(40, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU())
        self.gru = nn.GRU(width, 128, batch_first=True)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        states, _ = self.gru(self.convs(x).transpose(1, 2))
        return self.head(states[:, -1])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    clips = Clips(STEPS * BATCH * world)
    loader = DataLoader(clips, BATCH, sampler=DistributedSampler(clips, world, rank), num_workers=3,
                        prefetch_factor=4, persistent_workers=True)
    model = DDP(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pace = Pace()
    for step, (clip, label) in enumerate(loader):
        loss = F.cross_entropy(model(clip), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
        pace.tick()
    if rank == 0:
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
