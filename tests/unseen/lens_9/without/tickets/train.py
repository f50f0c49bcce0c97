"""Sorts support tickets by topic."""
import os
import shutil
import tempfile
import time

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from texts import TOPICS, make_tickets, make_tokenizer


class Tickets(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class StepTimes(TrainerCallback):
    def __init__(self):
        self.at = []

    def on_step_end(self, args, state, control, **kwargs):
        self.at.append(time.perf_counter())


def main():
    rows = make_tickets(500)
    tokenizer = make_tokenizer(rows)
    for row in rows:
        row["ids"] = tokenizer(row["text"], truncation=True)["input_ids"]

    def collate(batch):
        enc = tokenizer.pad({"input_ids": [row["ids"] for row in batch]}, return_tensors="pt")
        enc["labels"] = torch.tensor([row["label"] for row in batch])
        return enc

    config = BertConfig(vocab_size=len(tokenizer), hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=256, max_position_embeddings=64, num_labels=len(TOPICS))
    out = tempfile.mkdtemp()
    args = TrainingArguments(output_dir=out, per_device_train_batch_size=24, max_steps=62, learning_rate=5e-4, use_cpu=True,
                             save_strategy="no", logging_steps=20, report_to=[], disable_tqdm=True, remove_unused_columns=False)
    times = StepTimes()
    trainer = Trainer(model=BertForSequenceClassification(config), args=args, train_dataset=Tickets(rows),
                      data_collator=collate, callbacks=[times])
    trainer.train()
    shutil.rmtree(out)
    ms = np.diff(times.at)[3:] * 1e3
    print(f"{np.median(ms):.2f} ms/step median, {ms.mean():.2f} ms/step", flush=True)
    del trainer


main()
if dist.is_initialized():
    dist.destroy_process_group()
