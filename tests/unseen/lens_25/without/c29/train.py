import statistics
import time

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.utils import set_seed
from torch.utils.data import DataLoader

from lyrics import Lyrics, NextWord, loss_of


class Hits:
    """How often the first guess was right, over the lines of all ranks."""

    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.right, self.seen = torch.zeros((), dtype=torch.long), 0

    @torch.no_grad()
    def update(self, scores, words):
        guesses, words = self.accelerator.gather((scores.argmax(-1), words))
        self.right += (guesses == words).sum()
        self.seen += words.numel()


def endless(loader):
    while True:
        yield from loader


def main(steps=60, batch=16):
    accelerator = Accelerator(cpu=True, kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)])
    set_seed(0)
    model = NextWord()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    loader = DataLoader(Lyrics(), batch_size=batch, shuffle=True, drop_last=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    hits = Hits(accelerator)
    times, lines = [], endless(loader)
    for step in range(steps):
        began = time.perf_counter()
        words = next(lines)
        scores = model(words[:, :-1])
        loss = loss_of(scores, words[:, 1:])
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        hits.update(scores.detach(), words[:, 1:].contiguous())
        times.append(1e3 * (time.perf_counter() - began))
    if accelerator.is_main_process:
        print(f"last loss {loss.item():.6f}, {hits.right.item() / hits.seen:.4f} right")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    accelerator.end_training()


if __name__ == "__main__":
    main()
