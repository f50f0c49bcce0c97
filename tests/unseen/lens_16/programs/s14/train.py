import statistics
import time

import torch
from torch.nn import functional as F

from scores import TagScores
from tagger import BiLSTMTagger, corpus


def main(steps=60, batch=40):
    torch.manual_seed(1)
    tokens, gold, lengths = corpus()
    model = BiLSTMTagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scores = TagScores()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = torch.randint(0, len(tokens), (batch,))
        logits = model(tokens[rows])
        loss = F.cross_entropy(logits.flatten(0, 1), gold[rows].flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        scores.update(logits, gold[rows], lengths[rows])
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.3f}  training F1 {scores.f1():.3f}")
    print("right at a confidence of " + ", ".join(f"{a:.1f}: {b:.2f}" for a, b in scores.calibration().items()))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
