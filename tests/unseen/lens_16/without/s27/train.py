import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mining import hardest
from towers import Catalogue, Retriever


def main(steps=60, batch=320):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    catalogue = Catalogue()
    loader = DataLoader(TensorDataset(catalogue.queries, catalogue.answer), batch, shuffle=True, drop_last=True)
    model = Retriever()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    bank = torch.zeros(len(catalogue.documents), 96)
    times, step = [], 0
    while step < steps:
        for queries, answers in loader:
            began = time.perf_counter()
            q, d = model(queries, catalogue.documents[answers])
            bank[answers] = d.detach()
            negative = bank[hardest(q, bank, answers, catalogue.rivals)]
            logits = torch.cat([q @ d.t(), (q * negative).sum(1, keepdim=True)], 1) / 0.05
            loss = F.cross_entropy(logits, torch.arange(len(q)))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - began))
            step += 1
            if step == steps:
                break
    accelerator.print(f"loss {loss.item():.4f}")
    accelerator.print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")
    accelerator.end_training()


if __name__ == "__main__":
    main()
