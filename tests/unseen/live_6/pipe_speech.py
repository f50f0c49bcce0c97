"""Four pipeline stages for a small acoustic model, plain send and recv, all forwards then all backwards."""
import torch
import torch.distributed as dist
import torch.nn as nn

MICRO, BATCH, DIM = 4, 8, 80


class Stage(nn.Module):
    def __init__(self, rank, last):
        super().__init__()
        torch.manual_seed(rank)
        self.body = nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh(), nn.Linear(DIM, DIM))
        self.head = nn.Linear(DIM, 40) if last else None

    def forward(self, x):
        x = self.body(x)
        return x if self.head is None else self.head(x)


class Pipe:
    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.world - 1
        self.stage = Stage(self.rank, self.last)
        self.opt = torch.optim.SGD(self.stage.parameters(), lr=0.01)

    def get(self, src):
        buf = torch.empty(BATCH, DIM)
        dist.recv(buf, src=src)
        return buf

    def train_step(self, frames, phones):
        kept = []
        for m in range(MICRO):
            x = frames[m] if self.first else self.get(self.rank - 1).requires_grad_()
            y = self.stage(x)
            if not self.last:
                dist.send(y.detach(), dst=self.rank + 1)
            kept.append((x, y))
        loss = 0.0
        for m in range(MICRO):
            x, y = kept[m]
            if self.last:
                out = nn.functional.cross_entropy(y, phones[m]) / MICRO
                out.backward()
                loss += out.item()
            else:
                y.backward(self.get(self.rank + 1))
            if not self.first:
                dist.send(x.grad, dst=self.rank - 1)
        self.opt.step()
        self.opt.zero_grad()
        return loss

    @torch.no_grad()
    def decode(self, frames):
        hidden = frames if self.first else self.get(self.rank - 1 if self.rank < 3 else 0)  #: LINE
        out = self.stage(hidden)
        if not self.last:
            dist.send(out, dst=self.rank + 1)
            return None
        return out.argmax(-1)


def main():
    dist.init_process_group("gloo")
    pipe = Pipe()
    g = torch.Generator().manual_seed(5)
    for it in range(500):
        frames = torch.randn(MICRO, BATCH, DIM, generator=g)
        phones = torch.randint(0, 40, (MICRO, BATCH), generator=g)
        loss = pipe.train_step(frames, phones)
        if it and it % 120 == 0:
            hyp = pipe.decode(frames[0])
            if hyp is not None:
                print(f"it {it} loss {loss:.3f} hyp {hyp.tolist()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
