import random
import re

import torch
from torch.utils.data import Dataset

WORD = re.compile(r"[a-z]+|[0-9]|[^\sa-z0-9]")


class Tokenizer:
    """Greedy longest-match pieces, in plain Python."""

    def __init__(self, words):
        pieces = set("abcdefghijklmnopqrstuvwxyz0123456789.,")
        for w in words:
            for k in range(2, 6):
                pieces.add(w[:k])
        self.ids = {p: i + 3 for i, p in enumerate(sorted(pieces))}
        self.size = len(self.ids) + 3

    def encode(self, text, limit):
        out = [1]
        for word in WORD.findall(text.lower()):
            at = 0
            while at < len(word):
                for end in range(min(len(word), at + 6), at, -1):
                    piece = self.ids.get(word[at:end])
                    if piece is not None:
                        out.append(piece)
                        break
                else:
                    end = at + 1
                at = end
        return out[:limit]


def corpus(n, seed=0):
    rng = random.Random(seed)
    words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 10))) for _ in range(900)]
    texts = [" ".join(rng.choice(words) for _ in range(330)) + "." for _ in range(96)]
    return words, [texts[i % 96] for i in range(n)]


class Reviews(Dataset):
    def __init__(self, texts, tok=None, limit=64):
        self.texts = texts
        self.rows = [tok.encode(t, limit) for t in texts] if tok else None

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        if self.rows is not None:
            return {"ids": self.rows[i], "label": i % 2}
        return {"text": self.texts[i], "label": i % 2}


class Collate:
    def __init__(self, tok, limit=64):
        self.tok, self.limit = tok, limit

    def __call__(self, items):
        if "ids" in items[0]:
            rows = [it["ids"] for it in items]
        else:
            rows = [self.tok.encode(it["text"], self.limit) for it in items]  #: LINE
        width = max(len(r) for r in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for k, r in enumerate(rows):
            ids[k, :len(r)] = torch.tensor(r)
            mask[k, :len(r)] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([it["label"] for it in items])}
