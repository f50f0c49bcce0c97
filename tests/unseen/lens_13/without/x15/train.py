import copy
import statistics
import time

import torch
import torch.nn.functional as F

from charlm import CharLM, text


def main(steps=62, batch=5, length=40):
    torch.manual_seed(0)
    data = text()
    model = CharLM()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    best, best_state, smooth = float("inf"), None, None
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        at = torch.randint(len(data) - length - 1, (batch, 1)) + torch.arange(length + 1)
        piece = data[at]
        loss = F.cross_entropy(model(piece[:, :-1]).flatten(0, 1), piece[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
        if step % 20 == 19 and smooth < best:
            best = smooth
            best_state = copy.deepcopy(model.state_dict())
        times.append(1e3 * (time.perf_counter() - begin))
    model.load_state_dict(best_state)
    times = times[3:]
    print(f"best {best:.3f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
