"""Causal language model on text streams: every rank reads its own file."""
import os
import tempfile

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

FILES = {0: ("news.txt", 961), 1: ("letters.txt", 948)}


class TextStream(IterableDataset):
    def __init__(self, name, n):
        self.name, self.n = name, n

    def __iter__(self):
        g = torch.Generator().manual_seed(len(self.name))
        for _ in range(self.n):
            start = int(torch.randint(0, 60, (1,), generator=g))
            ids = (torch.arange(32) * 3 + start) % 64
            yield {"input_ids": ids, "labels": ids.clone()}


class StreamTrainer(Trainer):
    def get_train_dataloader(self):
        # not prepared by accelerate: it would read one file and hand it out
        return DataLoader(self.train_dataset, batch_size=self.args.per_device_train_batch_size)


def build(rank):
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=500,
        per_device_train_batch_size=4,
        logging_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        ddp_backend="gloo",
    )
    return StreamTrainer(model=GPT2LMHeadModel(config), args=args, train_dataset=TextStream(*FILES[rank]))


if __name__ == "__main__":
    trainer = build(int(os.environ["RANK"]))
    result = trainer.train()  #: LINE
    print("rank", trainer.args.process_index, "loss", result.training_loss)
