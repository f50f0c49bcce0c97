import copy
import statistics
import time

import torch

from memory import Memory
from track import Driver, Track


def main(steps=60, batch=384, sight=24, lived=200000):
    torch.manual_seed(0)
    track, memory = Track(sight=sight), Memory(250000, sight)
    driver = Driver(sight)
    target = copy.deepcopy(driver).requires_grad_(False)
    optimizer = torch.optim.Adam(driver.parameters(), lr=5e-4, fused=True)
    seen = torch.randn(lived, sight)
    memory.fill(seen, torch.randint(0, 5, (lived,)), -seen[:, :4].square().mean(1), seen @ track.turn)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        with torch.no_grad():
            best = driver(track.state).argmax(1)
        memory.push(*track.step(torch.where(torch.rand(8) < 0.1, torch.randint(0, 5, (8,)), best)))
        picked, pull, seen, move, gain, after = memory.sample(batch)
        with torch.no_grad():
            goal = gain + 0.97 * target(after).max(1).values
        errors = goal - driver(seen).gather(1, move[:, None])[:, 0]
        loss = (pull * errors.square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        memory.surprised(picked, errors.detach())
        if step % 30 == 29:
            target.load_state_dict(driver.state_dict())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
