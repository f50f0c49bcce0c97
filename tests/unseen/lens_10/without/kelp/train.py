import statistics
import tempfile
import time

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments


class Kelp(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 8, 48, 48, generator=g)
        self.y = (self.x[:, 0].mean((1, 2)) > 0).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.y[i]}


class Net(nn.Module):
    def __init__(self, w=40):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(8, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1, stride=2), nn.ReLU(),
                               nn.Conv2d(w, w, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(w, 2))

    def forward(self, x, labels=None):
        out = self.f(x)
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}


class Ends(TrainerCallback):
    def __init__(self):
        self.t = []

    def on_step_end(self, *a, **k):
        self.t.append(time.perf_counter())


if __name__ == "__main__":
    torch.manual_seed(0)
    ends = Ends()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(folder, max_steps=64, per_device_train_batch_size=16, per_device_eval_batch_size=8, eval_strategy="steps",
                                 eval_steps=100, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True)
        Trainer(model=Net(), args=args, train_dataset=Kelp(320, 1), eval_dataset=Kelp(8, 2), callbacks=[ends]).train()
    ms = [1000 * (b - a) for a, b in zip(ends.t, ends.t[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
