import statistics
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed


class Flowers(torch.utils.data.Dataset):
    def __init__(self, count=1000, side=24):
        g = torch.Generator().manual_seed(5)
        self.kind = torch.randint(0, 6, (count,), generator=g)
        self.image = torch.randn(count, 3, side, side, generator=g)
        self.image[:, 0] += self.kind.view(-1, 1, 1) / 3

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, index):
        return {"image": self.image[index], "labels": self.kind[index]}


class Flower(nn.Module):
    """A pretrained body that is tuned slowly, and a new head."""

    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(2 * width, 6)

    def forward(self, image, labels):
        logits = self.head(self.body(image).mean((2, 3)))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class SlowBody(Trainer):
    def create_optimizer(self, *args, **kwargs):
        groups = [
            {"params": list(self.model.body.parameters()), "lr": 0.05 * self.args.learning_rate},
            {"params": list(self.model.head.parameters()), "lr": self.args.learning_rate},
        ]
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        return self.optimizer


class Clock(TrainerCallback):
    def __init__(self):
        self.begins = []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

    def on_train_end(self, args, state, control, **kwargs):
        self.begins.append(time.perf_counter())

def main():
    set_seed(0)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=60, per_device_train_batch_size=36, learning_rate=2e-3, use_cpu=True,
            max_grad_norm=0, logging_steps=30, save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False, remove_unused_columns=False,
        )
        SlowBody(model=Flower(), args=arguments, train_dataset=Flowers(), callbacks=[clock]).train()
    times = [1e3 * (b - a) for a, b in zip(clock.begins, clock.begins[1:])]
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
