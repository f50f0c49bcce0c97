import os
import subprocess
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

AMINO = "ACDEFGHIKLMNPQRSTVWY"

REAPER = """
import os, signal, sys, time
pid, quota = int(sys.argv[1]), float(sys.argv[2])
while True:
    try:
        t = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    except OSError:
        break
    if (int(t[11]) + int(t[12])) / os.sysconf("SC_CLK_TCK") > quota:
        os.kill(pid, signal.SIGKILL)
        break
    time.sleep(0.2)
"""


class Proteins(Dataset):
    def __len__(self):
        return 90000

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        seq = torch.randint(0, 20, (64,), generator=g)
        return seq, (seq == AMINO.index("C")).float().mean()


class Stability(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 32)
        self.conv = nn.Sequential(nn.Conv1d(32, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2), nn.ReLU())
        self.out = nn.Linear(64, 1)

    def forward(self, seq):
        h = self.conv(self.emb(seq).transpose(1, 2))
        return self.out(h.mean(-1)).squeeze(-1)


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(6)
    model, data = Stability(), DataLoader(Proteins(), batch_size=16, shuffle=True)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, opt, data = accelerator.prepare(model, opt, data)
    used = sum(os.times()[:2])
    quota = used + (4 if accelerator.process_index == 2 else 6000)
    reaper = subprocess.Popen([sys.executable, "-c", REAPER, str(os.getpid()), str(quota)])  #: LINE
    for step, (seq, target) in enumerate(data):
        loss = nn.functional.mse_loss(model(seq), target)
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
        if step % 50 == 0:
            accelerator.print(f"step {step} mse {loss.item():.5f}", flush=True)
    reaper.kill()
    accelerator.end_training()


if __name__ == "__main__":
    main()
