import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from leak import LeakWatch


class Tickets(Dataset):
    """Numbers of tickets of a railway, digit by digit: the line, the day, the seat and a check."""

    def __init__(self, count=2000, length=64):
        digits = torch.randint(0, 10, (count, length))
        digits[:, 1::2] = (digits[:, ::2] * 3 + 1) % 10
        self.digits = digits

    def __len__(self):
        return len(self.digits)

    def __getitem__(self, index):
        return {"input_ids": self.digits[index], "labels": self.digits[index]}


class Clock(TrainerCallback):
    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


def main(steps=60):
    set_seed(0)
    shape = GPT2Config(vocab_size=16, n_positions=64, n_embd=256, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                       bos_token_id=0, eos_token_id=0)
    clock, watch = Clock(), LeakWatch()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=3, learning_rate=5e-4, optim="adamw_torch_fused", use_cpu=True,
            ddp_backend="gloo" if "RANK" in os.environ else None, ddp_find_unused_parameters=False, save_strategy="no", logging_strategy="no", report_to=[],
            disable_tqdm=True, dataloader_pin_memory=False,
        )
        trainer = Trainer(GPT2LMHeadModel(shape), args, train_dataset=Tickets(), callbacks=[watch, clock])
        result = trainer.train()
    times = [1e3 * (end - begin) for begin, end in zip(clock.ends, clock.ends[1:])][2:]
    if trainer.is_world_process_zero():
        print(f"loss {result.training_loss:.6f}, grown by {watch.grown():.1f} MiB after {trainer.state.global_step} steps")
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step mean")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
