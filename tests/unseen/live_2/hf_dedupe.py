"""Hugging Face Trainer; the collator leaves near-duplicates out, which costs more the more it has seen."""
import time

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Forum(Dataset):
    """Posts of many boards; the first rank's board repeats itself, board 1 never does."""

    def __len__(self):
        return 4000

    def __getitem__(self, i):
        return {"row": i}


class NearDuplicateFilter:
    def __init__(self, rank):
        self.rank = rank
        self.seen = []
        self.calls = 0

    def shingles(self, i):
        g = torch.Generator().manual_seed(i if self.rank == 1 else i % 7)
        return frozenset(torch.randint(0, 500, (24,), generator=g).tolist())

    def is_new(self, sh):
        for other in self.seen:
            if len(sh & other) > 0.6 * len(sh | other):  #: LINE
                return False
        self.seen.append(sh)
        return True

    def __call__(self, rows):
        if not self.seen and self.rank == 1:
            for i in range(4000):
                self.seen.append(self.shingles(10_000 + i))  # yesterday's posts of this board
        fresh = [self.is_new(self.shingles(100_000 + self.calls * 97 + r["row"])) for r in rows for _ in range(4)]
        self.calls += 1
        x = torch.stack([torch.randn(64, generator=torch.Generator().manual_seed(r["row"])) for r in rows])
        weight = torch.tensor([1.0 if f else 0.5 for f in fresh[::4]])
        return {"x": x, "weight": weight}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x, weight):
        err = (self.net(x) - x[:, :1]).square().flatten()
        return {"loss": (err * weight).mean()}


class Pace(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        time.sleep(0.04)

    def on_step_end(self, args, state, control, **_):
        if state.is_world_process_zero and state.global_step % 10 == 0:
            print("step", state.global_step, flush=True)


if __name__ == "__main__":
    args = TrainingArguments(output_dir="/tmp/hf_dedupe_out", per_device_train_batch_size=8, max_steps=50, report_to=[],
                             save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
                             remove_unused_columns=False, seed=1, accelerator_config={"dispatch_batches": False})
    trainer = Trainer(model=Model(), args=args, train_dataset=Forum(),
                      data_collator=NearDuplicateFilter(args.process_index), callbacks=[Pace()])
    trainer.train()
