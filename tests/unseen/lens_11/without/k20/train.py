"""A small GPT-2 on synthetic logs of a web server (Hugging Face Trainer)."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed

from pace import Pace


class LogLines(Dataset):
    def __init__(self, lines=512, length=48, vocabulary=1500):
        g = torch.Generator().manual_seed(6)
        self.ids = torch.randint(0, vocabulary, (lines, length), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class StepClock(TrainerCallback):
    def __init__(self):
        self.pace = Pace()

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()


set_seed(0)
config = GPT2Config(vocab_size=1500, n_positions=64, n_embd=192, n_layer=4, n_head=4, use_cache=False,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
clock = StepClock()
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=60, per_device_train_batch_size=8, learning_rate=5e-4, max_grad_norm=1.0,
        save_strategy="no", logging_steps=20, report_to="none", disable_tqdm=True, use_cpu=True)
    trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=LogLines(), callbacks=[clock])
    trainer.train()
clock.pace.report()
