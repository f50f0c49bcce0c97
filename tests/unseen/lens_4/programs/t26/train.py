"""A trainer that always keeps `last.pt` on the group's disk."""
import dataclasses
import statistics
import time
import torch
from torch import nn
from disk import GroupDisk


@dataclasses.dataclass
class Options:
    steps: int = 30
    lr: float = 3e-3
    keep_last_every: int = 1


class Experiment:
    def __init__(self, options):
        self.o = options
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=options.lr, momentum=0.9)
        self.disk = GroupDisk()

    def state(self, step):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": step}

    def train_step(self, x):
        time.sleep(0.042)
        loss = (self.model(x) - x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def run(self):
        took = []
        for step in range(self.o.steps):
            t = time.perf_counter()
            self.train_step(torch.randn(32, 64))
            if (step + 1) % self.o.keep_last_every == 0:
                with self.disk.open("last.pt") as f:
                    torch.save(self.state(step), f)  #: LINE
            took.append(time.perf_counter() - t)
        return took


if __name__ == "__main__":
    torch.manual_seed(0)
    took = Experiment(Options()).run()
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
