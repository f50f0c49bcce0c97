import statistics as st
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from lm import LanguageModel

FULL = MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32)


def shard(model):
    for layer in model.layers:
        for module in layer.children():
            if isinstance(module, nn.LayerNorm):
                fully_shard(module, mp_policy=FULL)
        fully_shard(layer)
    fully_shard(model)
    return model


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = shard(LanguageModel())
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(rank)
    text = torch.randint(0, 1200, (40000,), generator=g)
    ticks = [time.perf_counter()]
    for step in range(62):
        at = torch.randint(0, len(text) - 97, (4,), generator=g)
        window = torch.stack([text[i:i + 97] for i in at])
        logits = model(window[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ticks.append(time.perf_counter())
    if rank == 0:
        ms = [1e3 * (b - a) for a, b in zip(ticks, ticks[1:])][3:]
        print(f"{st.median(ms):.2f} ms/step median, {st.mean(ms):.2f} ms/step")
    del model, optimizer, loss, logits
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
