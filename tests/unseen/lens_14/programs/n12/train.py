import statistics
import time

import torch

from supertags import Supertagger, collate, sentences, tagging_loss


def main(steps=62):
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(sentences(), batch_size=18, shuffle=True, collate_fn=collate)
    model = Supertagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    start = time.perf_counter()
    for step, (words, tags, lengths) in enumerate(loader):
        loss = tagging_loss(model(words), tags, lengths)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        opt.step()
        now = time.perf_counter()
        times.append(1e3 * (now - start))
        start = now
        if step == steps - 1:
            break
    times = times[3:]
    print(f"loss {loss.item():.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
