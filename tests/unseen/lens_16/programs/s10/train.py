import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from encoder import MaskedLM, hide


def sentences(count=2400, longest=48, words=5000):
    g = torch.Generator().manual_seed(4)
    first = torch.randint(1, words, (count, 1), generator=g)
    return (first + 17 * torch.arange(longest) + torch.randint(0, 3, (count, longest), generator=g)) % (words - 1) + 1


def main(steps=60, batch=24):
    torch.manual_seed(0)
    loader = DataLoader(sentences(), batch, shuffle=True, drop_last=True)
    model = MaskedLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times, hidden_words = [], 0
    for step, tokens in zip(range(steps), loader):
        began = time.perf_counter()
        seen, chosen, answer = hide(tokens, mask_word=0)
        loss = F.cross_entropy(model(seen, chosen), answer)
        hidden_words += len(answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f} over {hidden_words} hidden words")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
