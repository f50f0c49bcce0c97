import logging

import torch
from transformers import TrainerCallback

log = logging.getLogger("verse")


class Verses(torch.utils.data.Dataset):
    def __init__(self, count=1000, length=40, words=1500):
        g = torch.Generator().manual_seed(6)
        self.rows = torch.randint(0, words, (count, length), generator=g)
        self.rows[:, 1::2] = (self.rows[:, ::2] * 3) % words

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Inspect(TrainerCallback):
    """For hunting bad gradients; silent unless the level is DEBUG."""

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        for name, p in model.named_parameters():
            log.debug("step %d %s gradient %s", state.global_step, name, p.grad)
