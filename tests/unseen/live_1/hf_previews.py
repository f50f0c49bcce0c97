"""Trainer with a callback that renders previews on the first process at each log."""
import os
import tempfile
import time

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments


class Waves(torch.utils.data.Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, i):
        t = torch.linspace(0, 6, 20) + i * 0.1
        return {"wave": t.sin(), "labels": t.cos()}


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 20))

    def forward(self, wave, labels=None):
        out = self.net(wave)
        return {"loss": nn.functional.mse_loss(out, labels), "out": out}


class Previews(TrainerCallback):
    def on_log(self, args, state, control, model=None, **kw):
        if state.is_world_process_zero:
            core = getattr(model, "module", model)
            with torch.no_grad():
                y = core.net(torch.linspace(0, 6, 20).sin())
            rows = ["#" * int(10 + 8 * v) for v in y.tolist()]
            time.sleep(1.5)  # the renderer writes a png
            print(f"step {state.global_step}\n" + "\n".join(rows[::6]), flush=True)


def main():
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), "hf_previews"), per_device_train_batch_size=8,
        num_train_epochs=3, logging_steps=5, save_strategy="no", report_to=[], use_cpu=True,
        ddp_backend="gloo", disable_tqdm=True, dataloader_pin_memory=False,
    )
    t = Trainer(model=Shift(), args=args, train_dataset=Waves(), callbacks=[Previews()])
    t.train()
    print("rank", args.process_index, "is through", flush=True)


if __name__ == "__main__":
    main()
