import gc
import statistics
import time

import torch
from torch.nn import functional as F

from menus import Writer, menus


def free_memory():
    """Keeps the peak down between steps."""
    gc.collect()  #: LINE
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main(steps=60, batch=16):
    torch.manual_seed(0)
    model = Writer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    gc.freeze()  # modules and classes stay to the end
    records = menus()

    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(records), (batch,)).tolist()
        tokens = torch.tensor([records[place]["words"] for place in picked])
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del logits
        free_memory()
        times.append(1e3 * (time.perf_counter() - began))

    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
