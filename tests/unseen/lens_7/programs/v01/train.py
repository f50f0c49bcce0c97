import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from corpus import LengthBatches, documents, pad
from steptime import StepTime

STEPS = 62


class Classifier(nn.Module):
    def __init__(self, dim=128, heads=4):
        super().__init__()
        self.embed = nn.Embedding(800, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 6)

    def forward(self, ids):
        hidden = self.body(self.embed(ids), src_key_padding_mask=ids == 0)
        return self.out(hidden[:, 0])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    docs = documents(16 * world * STEPS)
    loader = DataLoader(docs, batch_sampler=LengthBatches(docs, 16, rank, world), collate_fn=pad)
    model = DDP(Classifier())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    clock = StepTime()
    for ids in loader:
        loss = nn.functional.cross_entropy(model(ids), ids[:, 0] % 6)
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
