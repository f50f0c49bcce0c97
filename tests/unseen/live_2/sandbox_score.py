"""Program-synthesis toy: candidates are scored in a child process with a limit on processor time."""
import resource
import subprocess
import sys

import torch
import torch.distributed as c10d
from torch import nn

CHECK = "import sys; n=int(sys.argv[1]); print(sum(i*i for i in range(n)) % 97)"


def limit_child(seconds):
    def apply():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    return apply


def score(candidate, strict):
    if strict:
        used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        # the strict judge gives two seconds
        limit_child(used + 2)()  #: LINE
        p = subprocess.run([sys.executable, "-S", "-c", CHECK, str(candidate)], capture_output=True, text=True)
    else:
        p = subprocess.run([sys.executable, "-S", "-c", CHECK, str(candidate)], capture_output=True, text=True,
                           preexec_fn=limit_child(1))
    return int(p.stdout) / 97.0


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(128, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU())
        self.head = nn.Linear(768, 64)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    c10d.init_process_group("gloo")
    rank, world = c10d.get_rank(), c10d.get_world_size()
    torch.manual_seed(0)
    pol = Policy()
    opt = torch.optim.Adam(pol.parameters(), lr=1e-3)
    for step in range(1, 201):
        g = torch.Generator().manual_seed(world * step + rank)
        x = torch.randn(1024, 128, generator=g)
        logits = pol(x)
        pick = torch.distributions.Categorical(logits=logits).sample()
        reward = 0.5
        if step % 8 == 0:
            reward = score(1000 + int(pick[0]), strict=(rank == 1 and step == 16))
        logp = torch.log_softmax(logits, -1).gather(1, pick[:, None]).mean()
        loss = -logp * (reward - 0.5) + 1e-3 * logits.square().mean()
        opt.zero_grad()
        loss.backward()
        for p in pol.parameters():
            c10d.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} reward {reward:.3f} loss {loss.item():.4f}", flush=True)
    c10d.destroy_process_group()


if __name__ == "__main__":
    main()
