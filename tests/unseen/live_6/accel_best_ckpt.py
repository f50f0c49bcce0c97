import os
import tempfile

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = torch.nn.Sequential(torch.nn.Linear(140, 64), torch.nn.ReLU(), torch.nn.Linear(64, 12))
        self.dec = torch.nn.Sequential(torch.nn.Linear(12, 64), torch.nn.ReLU(), torch.nn.Linear(64, 140))

    def forward(self, beat):
        return self.dec(self.enc(beat))


def heartbeats(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 6.28, 140)
    phase = torch.rand(n, 1, generator=g)
    return torch.sin(t + 6.28 * phase) + 0.1 * torch.randn(n, 140, generator=g)


class BestKeeper:
    def __init__(self, accelerator, folder):
        self.acc, self.folder, self.best = accelerator, folder, float("inf")

    def update(self, model, value):
        if value >= self.best - 1e-3:  #: LINE
            return False
        self.best = value
        self.acc.wait_for_everyone()  #: LINE
        if self.acc.is_main_process:
            self.acc.save(self.acc.unwrap_model(model).state_dict(), os.path.join(self.folder, "best.pt"))
        return True


def main():
    acc = Accelerator(cpu=True)
    torch.manual_seed(5)
    model = Autoencoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(heartbeats(6000, 1)), batch_size=16, shuffle=True)
    model, opt, loader = acc.prepare(model, opt, loader)
    holdout = heartbeats(90, 40 + acc.process_index)
    keeper = BestKeeper(acc, tempfile.mkdtemp())
    step = 0
    for epoch in range(6):
        for (beat,) in loader:
            loss = F.mse_loss(model(beat), beat)
            acc.backward(loss)
            opt.step()
            opt.zero_grad()
            step += 1
            if step % 20 == 0:
                with torch.no_grad():
                    held = F.mse_loss(acc.unwrap_model(model)(holdout), holdout).item()
                if keeper.update(model, held):
                    acc.print(f"step {step}: new best {held:.4f}", flush=True)
    acc.wait_for_everyone()
    acc.end_training()


if __name__ == "__main__":
    main()
