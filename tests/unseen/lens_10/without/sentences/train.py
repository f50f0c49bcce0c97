import statistics
import tempfile
import time
from dataclasses import dataclass

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments


@dataclass
class Options:
    vocab: int = 14000
    dim: int = 160
    pairs: int = 600
    words: int = 40
    steps: int = 64


class PairEncoder(nn.Module):
    """Two sentences, one vector each; says whether they mean the same."""

    def __init__(self, o):
        super().__init__()
        self.embed = nn.Embedding(o.vocab, o.dim)
        self.rnn = nn.LSTM(o.dim, o.dim, batch_first=True, bidirectional=True)
        self.judge = nn.Sequential(nn.Linear(6 * o.dim, 256), nn.ReLU(), nn.Linear(256, 1))

    def encode(self, ids):
        return self.rnn(self.embed(ids))[0].mean(1)

    def forward(self, left, right, labels=None):
        a, b = self.encode(left), self.encode(right)
        score = self.judge(torch.cat([a, b, (a - b).abs()], -1)).squeeze(-1)
        return {"loss": nn.functional.binary_cross_entropy_with_logits(score, labels), "logits": score}


class Pairs(torch.utils.data.Dataset):
    def __init__(self, o):
        g = torch.Generator().manual_seed(4)
        self.left = torch.randint(0, o.vocab, (o.pairs, o.words), generator=g)
        self.same = (torch.rand(o.pairs, generator=g) < 0.5).float()
        other = torch.randint(0, o.vocab, (o.pairs, o.words), generator=g)
        self.right = torch.where(self.same[:, None] > 0, self.left, other)

    def __len__(self):
        return len(self.same)

    def __getitem__(self, i):
        return {"left": self.left[i], "right": self.right[i], "labels": self.same[i]}


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, *args, **kwargs):
        self.ends.append(time.monotonic())


def main(o=Options()):
    torch.manual_seed(3)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=PairEncoder(o),
            args=TrainingArguments(
                output_dir=folder,
                max_steps=o.steps,
                per_device_train_batch_size=16,
                save_strategy="steps",
                save_steps=60,
                save_total_limit=2,
                logging_steps=16,
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=Pairs(o),
            callbacks=[clock],
        )
        trainer.train()
    ms = [(b - a) * 1e3 for a, b in zip(clock.ends, clock.ends[1:])][3:]
    print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")


if __name__ == "__main__":
    main()
