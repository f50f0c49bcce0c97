import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from corpus import documents, pad, shard
from steptime import StepTime

STEPS = 62


class LM(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.embed = nn.Embedding(800, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 800)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.out(self.body(self.embed(ids), mask=mask))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    mine = shard(documents(10 * world * STEPS), rank, world)
    loader = DataLoader(mine, batch_size=10, collate_fn=pad)
    model = DDP(LM())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    clock = StepTime()
    for ids in loader:
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
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
