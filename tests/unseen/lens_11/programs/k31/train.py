"""Spam filter on ready token ids: Hugging Face Trainer, collated in the training process."""
import random
import tempfile

import torch
from transformers import (DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments,
                          set_seed)

from pace import Pace


class Messages(torch.utils.data.Dataset):
    def __init__(self, count=640):
        rng = random.Random(0)
        self.rows = [torch.tensor([rng.randrange(4, 2000) for _ in range(rng.randrange(24, 56))]) for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], i % 2


def pad(rows):
    ids = torch.nn.utils.rnn.pad_sequence([r for r, _ in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([y for _, y in rows])}


class Clock(TrainerCallback):
    def __init__(self):
        self.pace = Pace()

    def on_step_end(self, args, state, control, **kwargs):
        self.pace.tick()


def main():
    set_seed(1)
    clock = Clock()
    config = DistilBertConfig(vocab_size=2000, dim=160, n_layers=3, n_heads=4, hidden_dim=480, max_position_embeddings=64)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, max_steps=60, per_device_train_batch_size=16, logging_steps=10, save_strategy="no",
                                 dataloader_num_workers=0, report_to="none", use_cpu=True, disable_tqdm=True)
        trainer = Trainer(model=DistilBertForSequenceClassification(config), args=args, train_dataset=Messages(),
                          data_collator=pad, callbacks=[clock])
        trainer.train()
    clock.pace.report()


if __name__ == "__main__":
    main()
