import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class CharModel(nn.Module):
    def __init__(self, vocab=64, d=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, t):
        return self.out(self.gru(self.emb(t))[0])


class Trainer:
    sample_rank = 2

    def __init__(self, steps):
        self.steps = steps
        self.rank = dist.get_rank()
        torch.manual_seed(9)
        self.net = CharModel()
        self.ddp = DDP(self.net)
        self.opt = torch.optim.Adam(self.ddp.parameters(), lr=4e-3)
        self.samples = []
        torch.manual_seed(self.rank)

    @torch.no_grad()
    def sample(self, n):
        tokens = torch.zeros(1, 1, dtype=torch.long)
        for _ in range(n):
            logits = self.net(tokens)[:, -1]
            tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1)], 1)
        self.samples.append(tokens[0])

    def note(self, loss):
        self.samples.append((time.time(), float(loss)))

    def train_step(self):
        t = torch.randint(0, 64, (8, 33))
        loss = nn.functional.cross_entropy(self.ddp(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if self.rank == self.sample_rank:
            self.note(loss.detach())
        return loss

    def fit(self):
        for step in range(self.steps):
            if step == 3:
                start = time.perf_counter()
            loss = self.train_step()
        took = time.perf_counter() - start
        if self.rank == 0:
            print(f"{self.steps} steps, loss {loss.item():.3f}, {took / (self.steps - 3) * 1e3:.2f} ms/step", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer(30).fit()
    dist.destroy_process_group()
