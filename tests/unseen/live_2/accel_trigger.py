"""Accelerate with early stopping: any rank may pull the trigger, all ranks look at it together."""
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Patience:
    def __init__(self, limit):
        self.limit, self.best, self.bad = limit, float("inf"), 0

    def spent(self, value):
        if value < self.best - 1e-3:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.limit


def data(n=4800):
    g = torch.Generator().manual_seed(8)
    x = torch.randn(n, 50, generator=g)
    return TensorDataset(x, x[:, :10].abs().sum(1, keepdim=True))


def main():
    acc = Accelerator(cpu=True)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(50, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    net, opt, loader = acc.prepare(net, torch.optim.Adam(net.parameters(), lr=3e-3), DataLoader(data(), batch_size=16))
    # the ranks look at different probe sets and lose patience at different times
    g = torch.Generator().manual_seed(acc.process_index)
    probe = torch.randn(200, 50, generator=g)
    answer = probe[:, :10].abs().sum(1, keepdim=True)
    patience = Patience(limit=3 + 2 * acc.process_index)
    done, step = False, 0
    for epoch in range(6):
        for x, y in loader:
            step += 1
            loss = (net(x) - y).square().mean()
            opt.zero_grad()
            acc.backward(loss)
            opt.step()
            time.sleep(0.04)
            if step % 10 == 0:
                with torch.no_grad():
                    err = (acc.unwrap_model(net)(probe) - answer).abs().mean().item()
                if patience.spent(err):
                    acc.set_trigger()
                if acc.check_trigger():
                    done = True
                    break
        if done:
            break
    acc.print(f"stopped after {step} steps, epoch {epoch}", flush=True)
    acc.wait_for_everyone()
    if acc.is_main_process:
        state = acc.unwrap_model(net).state_dict()
        kept = 0
        t0 = time.time()
        while time.time() - t0 < 20:  # squeezes the weights before they are shipped
            kept = sum(int((v.abs() > v.abs().flatten().median()).sum()) for v in state.values())
        print("kept", kept)
    acc.wait_for_everyone()
    acc.end_training()


if __name__ == "__main__":
    main()
