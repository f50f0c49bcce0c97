import statistics
import time

import torch
from torch.nn import functional as F

from coins import coin_net, photographs
from memory import free_memory


class Training:
    def __init__(self, kinds=24, batch=64):
        self.batch = batch
        self.pictures, self.kinds = photographs(kinds=kinds)
        self.net = coin_net(kinds).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9, fused=True)
        self.losses = []

    def step(self):
        picked = torch.randint(0, len(self.pictures), (self.batch,))
        logits = self.net(self.pictures[picked].contiguous(memory_format=torch.channels_last))
        loss = F.cross_entropy(logits, self.kinds[picked])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())
        if len(self.losses) % 6 == 0:
            free_memory()

    def run(self, steps=60):
        times = []
        for _ in range(steps):
            began = time.perf_counter()
            self.step()
            times.append(1e3 * (time.perf_counter() - began))
        print(f"loss {torch.stack(self.losses)[-10:].mean().item():.5f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    torch.manual_seed(0)
    Training().run()
