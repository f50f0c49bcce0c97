"""Evaluation by sampling: every rank answers its prompts, the scores are gathered."""
import sys

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0


class Generator(nn.Module):
    def __init__(self, vocab=400, dim=256):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = torch.zeros(ids.shape[0], self.cell.hidden_size)
        logits = []
        for t in range(ids.shape[1]):
            h = self.cell(self.emb(ids[:, t]), h)
            logits.append(self.out(h))
        return torch.stack(logits, 1)

    @torch.no_grad()
    def sample(self, prompt, new_tokens):
        h = torch.zeros(1, self.cell.hidden_size)
        for token in prompt:
            h = self.cell(self.emb(token.view(1)), h)
        ids = []
        for _ in range(new_tokens):
            token = torch.multinomial(self.out(h).softmax(-1), 1)[0]
            h = self.cell(self.emb(token), h)
            ids.append(int(token))
        return ids


def evaluate(model, prompts):
    scores = []
    for prompt, want in prompts:
        answer = model.sample(prompt, want)
        scores.append(len(set(answer)) / len(answer))
    return torch.tensor(scores).mean()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Generator())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    # the prompts are sorted by length of the answer: short ones first
    answers = sorted(int(60 + 24000 * SCALE * (i / 30) ** 6) for i in range(30))
    prompts = [(torch.randint(0, 400, (12,), generator=g), n) for n in answers]
    share = len(prompts) // world
    for epoch in range(2):
        for _ in range(10):
            ids = torch.randint(0, 400, (8, 17), generator=g)
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        score = evaluate(model.module, prompts[rank * share:(rank + 1) * share])
        parts = [torch.zeros(()) for _ in range(world)]
        dist.all_gather(parts, score)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} variety {torch.stack(parts).mean():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
