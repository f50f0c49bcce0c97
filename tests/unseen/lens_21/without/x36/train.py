import statistics
import time

import torch
import torch.distributed as dist

from accumulate import train_step
from clauses import Reader, clauses, sharded


def main(steps=60, batch=9, parts=3):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = sharded(Reader())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    torch.manual_seed(1 + dist.get_rank())
    text, kind = clauses()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(kind), (batch,))
        loss = train_step(model, optimizer, text[picked], kind[picked], parts)
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
