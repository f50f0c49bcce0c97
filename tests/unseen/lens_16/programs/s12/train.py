import statistics
import time

import torch

from flow import Flow


def spiral(count, features=32):
    from torch.distributions import Normal
    angle = 6.0 * torch.rand(count, 1)
    place = torch.cat([angle * angle.cos(), angle * angle.sin()], 1).repeat(1, features // 2)
    return place / 4.0 + Normal(0.0, 0.1).sample(place.shape)


def main(steps=60, batch=768):
    torch.manual_seed(0)
    model = Flow()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        loss = -model.log_prob(spiral(batch)).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
        if step % 30 == 29:
            import datetime
            print(f"{datetime.datetime.now():%H:%M} step {step + 1}, loss {loss.item():.3f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
