"""DDP training of a text encoder on sentences of different lengths."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pace import Pace
from sampling import batches_for, make_lengths

STEPS = 64
BATCH, WIDTH = 16, 160


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)).mean(1))


def collate(indices, lengths):
    longest = max(lengths[i] for i in indices)
    ids = torch.zeros(len(indices), longest, dtype=torch.long)
    for row, i in enumerate(indices):
        ids[row, :lengths[i]] = 1 + (torch.arange(lengths[i]) * 31 + i) % 999
    return ids, torch.tensor([i % 5 for i in indices])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    lengths = make_lengths(STEPS * BATCH * world)
    model = DDP(Encoder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    pace = Pace()
    for indices in batches_for(rank, world, lengths, BATCH):
        ids, labels = collate(indices, lengths)
        loss = F.cross_entropy(model(ids), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        pace.tick()
    if rank == 0:
        print(f"final loss {loss.item():.4f}")
        pace.report()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
