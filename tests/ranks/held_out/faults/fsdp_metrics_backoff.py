#: n=4 ranks=2 cause=sleep tier=notice
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard


class MetricsClient:
    """Posts to the experiment tracker, with exponential backoff."""

    def __init__(self, outage_from=None):
        self.outage_from = outage_from
        self.sent = 0

    def post(self, step, payload):
        if self.outage_from is not None and step >= self.outage_from:
            raise ConnectionError("tracker answered 503")
        self.sent += 1

    def post_with_retry(self, step, payload, base=60.0, attempts=8):
        for attempt in range(attempts):
            try:
                return self.post(step, payload)
            except ConnectionError:
                if attempt == 0:
                    print("FREEZE", time.time(), flush=True)
                time.sleep(base * 4**attempt)  #: LINE


class DecoderLayer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Linear(dim, dim)

    def forward(self, x):
        y, _ = self.attn(x, x, x, need_weights=False)
        return self.ff(self.norm(x + y))


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=16, depth=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim) for _ in range(depth))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


def setup_fsdp(model):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for m in model.modules():
        if isinstance(m, FSDPModule):
            m.set_force_sum_reduction_for_comms(True)
    return model


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(9)
    model = setup_fsdp(Decoder())
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    outage = random.Random(1066).randint(17, 28)
    tracker = MetricsClient(outage if rank == 2 else None)
    for step in range(70):
        time.sleep(0.1)
        ids = torch.randint(0, 50, (2, 10))
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        tracker.post_with_retry(step, {"loss": loss.item()})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
