import time
import torch
import torch._dynamo as dynamo
from torch import nn
from sched_ramp import Ramp

STEPS = 24
dynamo.config.recompile_limit = 64


class Mixer(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.rows, self.cols = nn.Linear(16, 16), nn.Linear(d, d)
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        x = x + torch.relu(self.rows(x.transpose(1, 2))).transpose(1, 2)
        return self.head((x + torch.relu(self.cols(x))).mean(1))


net = Mixer()


def losses(x, y, level):
    out = net(x)
    main = nn.functional.cross_entropy(out, y)
    smooth = out.logsumexp(1).square().mean()
    return main + smooth * level / 4000


compiled = torch.compile(losses, backend="eager", dynamic=False)


def run():
    torch.manual_seed(0)
    ramp = Ramp()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    t = time.perf_counter()
    for step in range(STEPS):
        x, y = torch.randn(32, 16, 32), torch.randint(0, 4, (32,))
        time.sleep(0.05)
        level = ramp.at(step)
        loss = compiled(x, y, level)  #: LINE
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"mixer {loss.item():.3f}: {(time.perf_counter() - t) / STEPS * 1e3:.2f} ms/step")


if __name__ == "__main__":
    run()
