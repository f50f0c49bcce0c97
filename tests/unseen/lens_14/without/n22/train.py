import statistics
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from reviews import Collate, Reviews, Sentiment, WordPiece, read_reviews

STEPS = 64


def epochs(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(11)
    texts, labels = read_reviews()
    tokenizer = WordPiece(texts)
    data = Reviews(texts, labels, tokenizer)
    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=Collate(tokenizer), drop_last=True)
    model = Sentiment(tokenizer.size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05)
    model.train()
    marks = [time.perf_counter()]
    batches = epochs(loader)
    for step in range(STEPS):
        ids, label = next(batches)
        loss = F.cross_entropy(model(ids), label)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        marks.append(time.perf_counter())
    times = [1e3 * (b - a) for a, b in zip(marks, marks[1:])][3:]
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
