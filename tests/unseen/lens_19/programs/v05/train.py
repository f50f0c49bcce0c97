import statistics
import time

import torch
from torch.nn import functional as F

from scores import Scores
from tagger import Tagger


def main(steps=60, batch=56, words=3000, tags=17):
    torch.manual_seed(0)
    model = Tagger(words, tags)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    sentences = torch.randint(0, words, (2000, 40))
    truth = sentences % tags
    scores = Scores(tags)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 2000, (batch,))
        tag = truth[picked]
        logits = model(sentences[picked])
        loss = F.cross_entropy(logits.flatten(0, 1), tag.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scores.add(logits.detach(), tag)
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.5f} right {scores.mean():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
