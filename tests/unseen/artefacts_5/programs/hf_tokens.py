"""HF Trainer; the main process tokenises the corpus and keeps it on disk, the others read it."""
import frdump  # noqa: F401
import os
import random

import torch
import torch.nn as nn
from transformers import Trainer, TrainingArguments

DOCS = int(os.environ.get("DOCS", "70000"))
LETTERS = "etaoinshrdlu"


def corpus():
    rng = random.Random(0)
    for _ in range(DOCS):
        yield " ".join("".join(rng.choices(LETTERS, k=rng.randint(3, 11))) for _ in range(100))


def pieces(word, ranks):
    parts = list(word)
    while len(parts) > 1:
        best, at = None, -1
        for i in range(len(parts) - 1):
            r = ranks.get(parts[i] + parts[i + 1])
            if r is not None and (best is None or r < best):
                best, at = r, i
        if best is None:
            break
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def tokenise():
    pairs = [a + b for a in LETTERS for b in LETTERS]
    ranks = {p: i for i, p in enumerate(pairs)}
    ranks.update({p + q: len(pairs) + i for i, (p, q) in enumerate(zip(pairs, reversed(pairs)))})
    vocab, rows = {}, []
    for doc in corpus():
        ids = []
        for word in doc.split():
            for piece in pieces(word, ranks):
                ids.append(vocab.setdefault(piece, len(vocab)) % 500)
        rows.append(ids[:64])
    return torch.tensor(rows)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(500, 16)
        self.head = nn.Linear(16, 500)

    def forward(self, ids):
        logits = self.head(self.emb(ids[:, :-1]))
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())}


def main():
    args = TrainingArguments(
        output_dir="out", use_cpu=True, per_device_train_batch_size=8, max_steps=10, logging_steps=5,
        save_strategy="no", report_to=[], disable_tqdm=True, dataloader_pin_memory=False)
    with args.main_process_first(desc="tokenisation"):
        if not os.path.exists("tokens.pt"):
            print(f"tokenising {DOCS} documents", flush=True)
            torch.save(tokenise(), "tokens.pt")
        rows = torch.load("tokens.pt")
    data = [{"ids": r} for r in rows]
    Trainer(model=Model(), args=args, train_dataset=data).train()
    print("finished", flush=True)


if __name__ == "__main__":
    main()
