"""Online hard-example mining with a perceptron rule on a device that runs behind the host."""
import statistics
import time
import torch
from device import Device, OnDevice

device = Device()


def scan_shard(i):
    """The next records from the shelf: host time."""
    time.sleep(0.026)
    g = torch.Generator().manual_seed(i)
    x = torch.randn(256, 24, generator=g)
    return x, torch.sign(x[:, 0] + 0.1)


class Miner:
    def __init__(self, width, lr=0.05):
        self.w, self.lr = device.tensor(torch.zeros(width)), lr

    def margins(self, x, y):
        return device.kernel(lambda: (x @ self.w) * y, ms=44)

    def update(self, x, y):
        m = self.margins(x, y)
        hard = torch.where(m < 1.0, y, 0.0)
        push = (x * hard[:, None]).sum(0)
        self.w = self.w + self.lr * push / len(x)


def main():
    miner, took = Miner(24), []
    batch = scan_shard(0)
    for i in range(1, 31):
        t = time.perf_counter()
        miner.update(*batch)
        batch = scan_shard(i)
        took.append(time.perf_counter() - t)
    device.close()
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


main()
