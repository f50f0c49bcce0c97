"""FSDP2: all ranks generate together until the last one has finished; ranks that are done go on with a dummy token."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

VOCAB, DIM, CTX = 80, 64, 40
EOS = 0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.mix = nn.GRU(DIM, DIM, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        x = x + self.mix(self.norm(x))[0]
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.emb(ids)
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def batch(g):
    start = torch.randint(1, 40, (12, 1), generator=g)
    ids = start + torch.arange(CTX)
    stop = torch.randint(6, CTX, (12, 1), generator=g)
    return torch.where(torch.arange(CTX) >= stop, EOS, ids % VOCAB)


@torch.no_grad()
def generate(model, prompt, g):
    ids, done, extra = prompt, False, 0
    for _ in range(CTX):
        logits = model(ids if not done else ids[:, :1])  # a forward is a collective
        extra += done
        if not done:
            new = torch.multinomial(logits[:, -1].softmax(-1), 1, generator=g)
            ids = torch.cat([ids, new], 1)
            done = bool((ids == EOS).any(1).all())
        left = torch.tensor(0 if done else 1)
        dist.all_reduce(left)
        if left.item() == 0:
            break
    return ids, extra


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Net()
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for b in model.blocks:
        fully_shard(b, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 241):
        ids = batch(g)
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 30 == 0:
            ids, extra = generate(model, torch.randint(1, 40, (1 + rank, 3), generator=g), g)
            print(f"[{rank}] step {step} loss {loss.item():.3f} length {ids.shape[1]} idle forwards {extra}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
