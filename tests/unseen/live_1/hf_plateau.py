"""Hugging Face Trainer on a toy classifier with a plateau callback."""
import logging
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

logging.basicConfig(level=logging.INFO)


class Toy(Dataset):
    def __init__(self, n=512, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 16, generator=g)
        self.y = (self.x[:, 0] * self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"features": self.x[i], "labels": self.y[i]}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, features, labels=None):
        logits = self.net(features)
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


class Plateau(TrainerCallback):
    """ends the training when the logged loss stays flat"""

    def __init__(self, window=4):
        self.window = window
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kw):
        if not state.is_world_process_zero or "loss" not in (logs or {}):
            return control
        self.seen.append(logs["loss"])
        tail = self.seen[-self.window:]
        if len(tail) == self.window and max(tail) - min(tail) < 0.5:
            print("plateau at step", state.global_step, flush=True)
            control.should_training_stop = True  #: LINE
        return control


def main():
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), "hf_plateau"),
        per_device_train_batch_size=8,
        num_train_epochs=4,
        logging_steps=3,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    torch.manual_seed(0)
    trainer = Trainer(model=Classifier(), args=args, train_dataset=Toy(), callbacks=[Plateau()])
    out = trainer.train()
    print("rank", args.process_index, "loss", out.training_loss)


if __name__ == "__main__":
    main()
