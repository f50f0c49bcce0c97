import hashlib
import io
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard


class Bucket:
    """Object storage over a slow line: parts of 64 kB, one answer per part."""

    def __init__(self, root, latency):
        self.root, self.latency = Path(root), latency

    def put(self, key, blob):
        digest = hashlib.md5()
        with open(self.root / key, "wb") as f:
            for at in range(0, len(blob), 65536):
                f.write(blob[at:at + 65536])
                digest.update(blob[at:at + 65536])
                time.sleep(self.latency)
        return digest.hexdigest()


def net():
    layers = []
    for _ in range(4):
        layers += [nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.LayerNorm(256)]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def save(model, bucket, step):
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        buf = io.BytesIO()
        torch.save(full, buf)
        t = time.time()
        etag = bucket.put(f"step{step}.pt", buf.getvalue())
        print(f"step {step}: {buf.tell() >> 10} kB in {time.time() - t:.0f} s, {etag}", flush=True)
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = net()
    for m in model:
        if isinstance(m, nn.Linear):
            fully_shard(m)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    bucket = Bucket(tempfile.mkdtemp(), latency=0.45)
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 81):
        x = torch.randn(16, 256, generator=g)
        loss = nn.functional.cross_entropy(model(x), x[:, :10].argmax(1))
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step == 50:
            save(model, bucket, step)
        if step % 20 == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
