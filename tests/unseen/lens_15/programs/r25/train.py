import statistics
import time

import torch
from torch.nn import functional as F

from corpus import Corpus
from encoder import Encoder
from masking import mask_tokens


def main(steps=62, batch=28, vocab=1200):
    torch.manual_seed(0)
    corpus, model = Corpus(vocab), Encoder(vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        inputs, labels = mask_tokens(corpus.batch(batch), vocab)
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
        if step % 31 == 30:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
