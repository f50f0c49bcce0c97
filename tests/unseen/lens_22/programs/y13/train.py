import statistics
import time

import torch
from transformers import get_cosine_schedule_with_warmup

from ballads import ballads, model, optimizer, roughness


def main(steps=60, batch=24, length=32):
    torch.manual_seed(0)
    text, net = ballads(), model(length=length)
    descent = optimizer(net)
    schedule = get_cosine_schedule_with_warmup(descent, 5, steps)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        begins = torch.randint(0, len(text) - length, (batch, 1))
        lines = text[begins + torch.arange(length)]
        loss = net(input_ids=lines, labels=lines).loss + 0.1 * roughness(net)
        descent.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        descent.step()
        schedule.step()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
