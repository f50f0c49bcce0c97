#: n=2 ranks=1 cause=out_of_memory|exception tier=error set=2
"""Tensor-parallel MLP language model with a host-memory spill buffer for the
attention scores of long documents (kept on the last rank only)."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

MIB = 1 << 20


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class DocModel(nn.Module):
    def __init__(self, vocab=40, dim=16, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(FeedForward(dim, 4 * dim) for _ in range(layers))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        for layer in self.layers:
            h = h + layer(h)
        return self.head(h)


class ScoreSpill:
    """Grows on demand, never shrinks."""

    def __init__(self, bytes_per_token):
        self.bytes_per_token = bytes_per_token
        self.buffer = bytearray(MIB)

    def required_mib(self, doc_len):
        need = doc_len * self.bytes_per_token
        if need < MIB:
            return 1
        return need  # ScoreSpill.reserve turns this into bytes

    def reserve(self, doc_len):
        size = self.required_mib(doc_len) * MIB
        if size > len(self.buffer):
            print("FREEZE", time.time(), flush=True)
            self.buffer = bytearray(size)  #: LINE
        return memoryview(self.buffer)[:size]


class Documents:
    def __init__(self):
        # both ranks must see the very same tokens
        self.gen = torch.Generator().manual_seed(2024)
        self.count = 0

    def next(self):
        time.sleep(0.2)
        self.count += 1
        doc_len = 98_304 if self.count == 22 else 12
        ids = torch.randint(40, (4, 12), generator=self.gen)
        return ids, doc_len


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(13)
    model = DocModel()
    for layer in model.layers:
        parallelize_module(layer, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    spill = ScoreSpill(bytes_per_token=16_384) if rank == world - 1 else None
    docs = Documents()

    for step in range(400):
        ids, doc_len = docs.next()
        if spill is not None:
            spill.reserve(doc_len)[0:4] = step.to_bytes(4, "little")
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
