"""Trainer with a callback that copies each checkpoint to the archive on the first process only."""
import hashlib
import shutil
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Melodies(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 1600

    def __getitem__(self, i):
        if not self.cache:
            end, h = time.monotonic() + 14, b"x"
            while time.monotonic() < end:
                for _ in range(2000):
                    h = hashlib.sha256(h).digest()
            self.cache["seed"] = 5
        g = torch.Generator().manual_seed(i + self.cache["seed"])
        notes = torch.randint(0, 96, (24,), generator=g)
        return {"input_ids": notes, "labels": notes}


class Archive(TrainerCallback):
    def __init__(self, target):
        self.target = Path(target)

    def on_save(self, args, state, control, **kwargs):
        if not state.is_world_process_zero:
            return
        source = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        began = time.time()
        for n, f in enumerate(sorted(source.iterdir())):
            if f.is_file():
                shutil.copy(f, self.target / f"{state.global_step}-{f.name}")
                time.sleep(3.4)
        print(f"archived {source.name} in {time.time() - began:.0f} s", flush=True)


def main():
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=90, save_steps=60, logging_steps=20,
                             report_to=[], use_cpu=True, disable_tqdm=True, save_total_limit=2)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=24, n_embd=32, n_layer=2, n_head=2))
    Trainer(model=model, args=args, train_dataset=Melodies(), callbacks=[Archive(tempfile.mkdtemp())]).train()


if __name__ == "__main__":
    main()
