import re
import tempfile

import torch
from torch.utils.data import IterableDataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

RULES = [(re.compile(p), r) for p, r in [(r"(\w)-\s+(\w)", r"\1\2"), (r"[|!](?=[a-z])", "l"), (r"\b0(?=[a-z])", "o"), (r"rn(?=e)", "m"),
                                         (r"\s{2,}", " "), (r"(\d),(\d{3})", r"\1\2"), (r"'' | ``", '"')]]


def page(n, scanned):
    words = [f"clause{(n * 37 + k * k) % 499} the" for k in range(1400 if scanned else 60)]
    return ("  " if scanned else " ").join(words)


def clean(text):
    for _ in range(6):
        for pattern, repl in RULES:
            text = pattern.sub(repl, text)  #: LINE
    return text


def encode(text, size=48):
    ids = [sum(map(ord, w)) % 600 for w in text.split()][: size]
    return torch.tensor(ids + [0] * (size - len(ids)))


class Filings(IterableDataset):
    """Court filings: the newer half is born digital, the older one went through a scanner."""

    def __init__(self, rank, world):
        self.rank, self.world = rank, world

    def __iter__(self):
        n = 0
        while True:
            ids = encode(clean(page(n, scanned=self.rank == self.world - 1)))
            yield {"input_ids": ids, "labels": ids}
            n += 1


class FilingsTrainer(Trainer):
    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset, batch_size=self.args.per_device_train_batch_size)


def main():
    args = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=8, max_steps=700, logging_steps=20, save_strategy="no",
                             report_to=[], use_cpu=True, disable_tqdm=True)
    torch.manual_seed(2)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=600, n_positions=48, n_embd=32, n_layer=2, n_head=2))
    FilingsTrainer(model=model, args=args, train_dataset=Filings(args.process_index, args.world_size)).train()


if __name__ == "__main__":
    main()
