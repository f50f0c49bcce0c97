"""Intent classification with the Hugging Face Trainer; near-duplicates are removed first."""
import os
import random
import sys

import torch
from torch.utils.data import Dataset
from transformers import (DistilBertConfig, DistilBertForSequenceClassification, Trainer,
                          TrainingArguments)

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 3000


def utterances(n, seed=5):
    rng = random.Random(seed)
    return [([rng.randrange(3, 200) for _ in range(16)], rng.randrange(6)) for _ in range(n)]


def shingles(ids):
    return {(ids[i], ids[i + 1]) for i in range(len(ids) - 1)}


def drop_near_duplicates(rows, limit=0.7):
    kept, sets = [], []
    for ids, label in rows:
        mine = shingles(ids)
        if all(len(mine & other) / len(mine | other) < limit for other in sets):
            kept.append((ids, label))
            sets.append(mine)
    return kept


class Intents(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, label = self.rows[i]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(label)}


def load_rows(cache):
    if not os.path.exists(cache):
        rows = drop_near_duplicates(utterances(COUNT))
        torch.save(rows, cache + ".tmp")
        os.replace(cache + ".tmp", cache)
    return torch.load(cache)


def main():
    out = os.environ.get("OUT_DIR", "out")
    os.makedirs(out, exist_ok=True)
    args = TrainingArguments(output_dir=out, use_cpu=True, max_steps=15, logging_steps=5,
                             per_device_train_batch_size=16, save_strategy="no",
                             report_to=[], disable_tqdm=True)
    with args.main_process_first(desc="dropping near-duplicates"):
        rows = load_rows(os.path.join(out, "intents.pt"))

    config = DistilBertConfig(vocab_size=200, dim=32, n_layers=2, n_heads=2, hidden_dim=64,
                              max_position_embeddings=32, num_labels=6)
    model = DistilBertForSequenceClassification(config)
    trainer = Trainer(model=model, args=args, train_dataset=Intents(rows))
    trainer.train()


if __name__ == "__main__":
    main()
