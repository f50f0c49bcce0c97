"""Accelerate: the main process fetches the word vectors, the others wait for it."""
import datetime
import time

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PARTS = 24


def read_part(i):
    time.sleep(2.0)  # a slow mirror
    return torch.randn(100, 16, generator=torch.Generator().manual_seed(i))


def fetch_vectors():
    parts = []
    for i in range(PARTS):
        parts.append(read_part(i))  #: LINE
        if i % 6 == 5:
            print(f"part {i + 1} of {PARTS}", flush=True)
    return torch.cat(parts)


def load(accelerator):
    vectors = None
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            vectors = fetch_vectors()
            torch.save(vectors, "/tmp/vectors-live3.pt")
        else:
            vectors = torch.load("/tmp/vectors-live3.pt")
    return vectors


def main():
    # a short limit, so that a broken node is noticed soon
    limit = InitProcessGroupKwargs(timeout=datetime.timedelta(seconds=20))
    accelerator = Accelerator(cpu=True, kwargs_handlers=[limit])
    vectors = load(accelerator)
    data = TensorDataset(vectors, vectors.sum(dim=1, keepdim=True))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = nn.Linear(16, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
        accelerator.print(f"epoch {epoch} loss {loss.item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
