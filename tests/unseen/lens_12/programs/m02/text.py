import random
import re

import torch

WORDS = ("the a parcel letter ship harbour cloud winter summer bright slow river stone carries "
         "under above quickly gently wrote sent found lost old new grey green house road").split()
SPLIT = re.compile(r"\w+|[^\w\s]")


def reviews(count, seed=0):
    rnd = random.Random(seed)
    rows = []
    for _ in range(count):
        label = rnd.randrange(2)
        words = [rnd.choice(WORDS) + rnd.choice(["", "", "s", "ing", "ed"]) for _ in range(rnd.randint(200, 280))]
        words.insert(rnd.randrange(len(words)), "Wonderful!" if label else "Dreadful.")
        rows.append({"text": " ".join(words), "label": label})
    return rows


class WordPieces:
    """Greedy longest match, as in BERT."""

    def __init__(self, texts, size=1500):
        counts = {}
        for text in texts:
            for word in SPLIT.findall(text.lower()):
                for i in range(1, len(word) + 1):
                    for piece in (word[:i], "##" + word[i:]):
                        counts[piece] = counts.get(piece, 0) + 1
        best = sorted(counts, key=lambda p: (-counts[p], p))[:size]
        letters = [c for c in "abcdefghijklmnopqrstuvwxyz.!,"]
        self.table = {p: i for i, p in enumerate(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]"] + letters + ["##" + c for c in letters] + best))}

    def __len__(self):
        return len(self.table)

    def encode(self, text, limit=64):
        ids = [self.table["[CLS]"]]
        for word in SPLIT.findall(text.lower()):
            start = 0
            while start < len(word):
                end = len(word)
                while end > start:
                    piece = word[start:end] if start == 0 else "##" + word[start:end]
                    if piece in self.table:
                        break
                    end -= 1
                ids.append(self.table.get(piece, 1))
                start = max(end, start + 1)
        return ids[:limit]


class Collator:
    def __init__(self, pieces):
        self.pieces = pieces

    def __call__(self, rows):
        ids = [self.pieces.encode(row["text"]) for row in rows]  #: LINE
        width = max(map(len, ids))
        return {
            "input_ids": torch.tensor([i + [0] * (width - len(i)) for i in ids]),
            "attention_mask": torch.tensor([[1] * len(i) + [0] * (width - len(i)) for i in ids]),
            "labels": torch.tensor([row["label"] for row in rows]),
        }
