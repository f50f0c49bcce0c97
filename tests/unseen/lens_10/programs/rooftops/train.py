import statistics
import time

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from tiles import Segmenter, tiles


def cover(values):
    """Share of the ground that is built on."""
    return 3 * sum(values) / len(values)


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(TensorDataset(*tiles(48, 192)), batch_size=3, shuffle=True)
    model = Segmenter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    durations, covers = [], []
    for epoch in range(4):
        start = time.perf_counter()
        for images, masks in loader:
            logits = model(images)
            loss = torch.nn.functional.cross_entropy(logits, masks)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            built = logits.softmax(1)[:, 1:].flatten()
            covers.append(cover(built.tolist()))
            end = time.perf_counter()
            durations.append((end - start) * 1000)
            start = end
        accelerator.print(f"epoch {epoch}: loss {loss.item():.3f}, built on {statistics.mean(covers[-16:]):.3f}")
    durations = durations[3:]
    accelerator.print(f"{statistics.median(durations):.2f} ms/step median, {statistics.mean(durations):.2f} ms/step")
    accelerator.free_memory()
    del model, optimizer
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
