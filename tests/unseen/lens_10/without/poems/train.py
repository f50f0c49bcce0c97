import statistics
import tempfile
import time

import torch
from transformers import GPT2LMHeadModel, Trainer, TrainerCallback

import settings


class Verses(torch.utils.data.Dataset):
    def __init__(self, count, length=96):
        g = torch.Generator().manual_seed(17)
        start = torch.randint(0, 512, (count, 1), generator=g)
        self.ids = (start + 7 * torch.arange(length) + torch.randint(0, 3, (count, length), generator=g)) % 512

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class StepTimer(TrainerCallback):
    def __init__(self):
        self.seconds, self.since = [], None

    def on_step_begin(self, args, state, control, **kwargs):
        now = time.perf_counter()
        if self.since is not None:
            self.seconds.append(now - self.since)
        self.since = now


timer = StepTimer()
with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(model=GPT2LMHeadModel(settings.MODEL), args=settings.arguments(folder),
                      train_dataset=Verses(400), callbacks=[timer])
    trainer.train()
ms = [1000 * s for s in timer.seconds[3:]]
print(f"{statistics.median(ms):.2f} ms/step median, {statistics.mean(ms):.2f} ms/step")
