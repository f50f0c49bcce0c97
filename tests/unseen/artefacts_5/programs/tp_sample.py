"""Tensor-parallel decoder: each rank has a slice of the hidden units; samples text for a list of prompts."""
import frdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn

VOCAB, DIM, HIDDEN, WINDOW, LIMIT, EOS = 64, 32, 128, 16, 120, 0


class SplitMLP(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.up = nn.Linear(DIM, HIDDEN // world)
        self.down = nn.Linear(HIDDEN // world, DIM, bias=False)

    def forward(self, x):
        part = self.down(torch.relu(self.up(x)))
        dist.all_reduce(part)
        return x + part


class Decoder(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(SplitMLP(world) for _ in range(2))
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        x = self.emb(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(0))


@torch.no_grad()
def generate(model, prompt):
    ids = list(prompt)
    for _ in range(LIMIT):
        logits = model(torch.tensor(ids[-WINDOW:]))
        token = int(torch.multinomial(torch.softmax(logits, 0), 1))
        if token == EOS:
            break
        ids.append(token)
    return ids


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Decoder(world)
    for p in model.parameters():
        if p.shape[0] == VOCAB:
            dist.broadcast(p.data, src=0)
    torch.manual_seed(1234 + rank)
    for n in range(20):
        prompt = [(7 * n + k) % (VOCAB - 1) + 1 for k in range(WINDOW)]
        ids = generate(model, prompt)
        texts = [None] * world if rank == 0 else None
        dist.gather_object(ids, texts, dst=0)
        if rank == 0:
            print(f"prompt {n}: {len(ids) - WINDOW} tokens", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
