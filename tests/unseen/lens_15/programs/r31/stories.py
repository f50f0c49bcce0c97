import random

import torch


def vocabulary(size=1500):
    return {f"w{k}": k for k in range(size)}


def stories(count=1500, seed=0):
    rng = random.Random(seed)
    words = list(vocabulary())
    return [[rng.choice(words) for _ in range(rng.randint(30, 60))] for _ in range(count)]


class Batches:
    def __init__(self, texts, vocab, count, seed=0):
        self.rows = [[vocab[word] for word in text] for text in texts]
        self.count, self.rng = count, random.Random(seed)

    def __iter__(self):
        while True:
            rows = self.rng.sample(self.rows, self.count)
            width = max(map(len, rows))
            yield torch.tensor([row + [0] * (width - len(row)) for row in rows])
