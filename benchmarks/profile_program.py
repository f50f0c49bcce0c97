"""A job to be profiled: a transformer that trains, on one rank or with DDP on several. Prints nothing.

python benchmarks/profile_program.py [STEPS]
"""

import os
import sys

import torch

WIDTH, LAYERS, LENGTH, BATCH = 128, 4, 32, 8


def main(steps: int) -> None:
    """Trains on numbers that are drawn anew in each step; reads its loss every 20 steps."""
    torch.set_num_threads(1)
    is_alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if not is_alone:
        torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    model: torch.nn.Module = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    if not is_alone:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        x = torch.randn(BATCH, LENGTH, WIDTH)
        loss = (model(x) - x.roll(1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0 and not torch.isfinite(loss):
            raise ValueError(f"loss is {loss.item()} in step {step}")
    if not is_alone:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
