"""Trainer whose compute_metrics draws bootstrap intervals; the first rank draws many more of them."""
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import EvalPrediction, Trainer, TrainingArguments


class Moons(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 20, generator=g)
        self.y = (self.x[:, 0] * self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.y[i]}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 2))

    def forward(self, x, labels=None):
        time.sleep(0.02)
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Bootstrap:
    def __init__(self, draws):
        self.draws = draws

    def __call__(self, pred: EvalPrediction):
        hit = (pred.predictions.argmax(-1) == pred.label_ids).astype(np.float64)
        rng = np.random.default_rng(0)
        t0 = time.time()
        means = [hit[rng.integers(0, len(hit), len(hit))].mean() for _ in range(200)]
        while time.time() - t0 < self.draws:  # the report asks for narrow intervals, only one rank writes it
            means.append(hit[rng.integers(0, len(hit), len(hit))].mean())
        low, high = np.quantile(means, [0.025, 0.975])
        return {"accuracy": hit.mean(), "low": low, "high": high}


def main():
    args = TrainingArguments(output_dir="/tmp/hf_bootstrap_out", per_device_train_batch_size=32, max_steps=80,
                             per_device_eval_batch_size=64, eval_strategy="steps", eval_steps=40, report_to=[],
                             save_strategy="no", logging_steps=20, disable_tqdm=True, use_cpu=True, learning_rate=2e-3)
    torch.manual_seed(0)
    metrics = Bootstrap(draws=16.0 if args.process_index == 0 else 0.2)
    trainer = Trainer(model=Classifier(), args=args, train_dataset=Moons(9000, 0), eval_dataset=Moons(900, 1),
                      compute_metrics=metrics)
    trainer.train()
    if trainer.is_world_process_zero():
        for row in trainer.state.log_history:
            if "eval_accuracy" in row:
                print(row["step"], round(row["eval_accuracy"], 3), round(row["eval_low"], 3), round(row["eval_high"], 3))


if __name__ == "__main__":
    main()
