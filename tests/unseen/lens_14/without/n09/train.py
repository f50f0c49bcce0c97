import statistics
import time

import torch

from captions import Captioner


def main(steps=60, batch=48, length=15):
    torch.manual_seed(0)
    regions, words = torch.randn(1500, 36, 128), torch.randint(700, (1500, length))
    model = Captioner()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-4)
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        pick = torch.randint(len(words), (batch,))
        scores = model(regions[pick], words[pick])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), words[pick, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
