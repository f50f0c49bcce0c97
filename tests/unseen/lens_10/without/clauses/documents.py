import random

import torch


def make(count, seed):
    """Contract clauses as token ids, most of them short and a few long."""
    rnd = random.Random(seed)
    docs = []
    for _ in range(count):
        n = min(320, 24 + int(rnd.lognormvariate(4.0, 0.9)))
        docs.append((torch.tensor([rnd.randrange(1, 2000) for _ in range(n)]), rnd.randrange(6)))
    return docs


def bucketed(docs, size):
    docs = sorted(docs, key=lambda d: len(d[0]))
    return [docs[i:i + size] for i in range(0, len(docs) - size + 1, size)]


def epoch(buckets, seed):
    order = list(range(len(buckets)))
    random.Random(seed).shuffle(order)
    for i in order:
        ids = torch.nn.utils.rnn.pad_sequence([d for d, _ in buckets[i]], batch_first=True)
        yield ids, torch.tensor([y for _, y in buckets[i]])
