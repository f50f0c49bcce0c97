import statistics
import time

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from charlm import CharLM, texts


class Accuracy:
    def __init__(self):
        self.right, self.seen = 0, 0

    def add(self, right, seen):
        self.right += right
        self.seen += seen

    def value(self):
        return float(self.right) / max(1, float(self.seen))


def main(steps=62, vocab=300):
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(texts(vocab=vocab)), batch_size=24, shuffle=True, drop_last=True)
    model = CharLM(vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accuracy, times, step = Accuracy(), [], 0
    begin = time.perf_counter()
    while step < steps:
        for (ids,) in loader:
            past, future = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
            logits = model(past)
            loss = cross_entropy(logits.flatten(0, 1), future.flatten())
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            counts = torch.stack([(logits.detach().argmax(-1) == future).sum(), torch.tensor(future.numel())])
            accuracy.add(*accelerator.reduce(counts))
            now = time.perf_counter()
            times.append(1e3 * (now - begin))
            begin = now
            step += 1
            if step == steps:
                break
    times = times[3:]
    accelerator.print(f"accuracy {accuracy.value():.3f}")
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


main()
