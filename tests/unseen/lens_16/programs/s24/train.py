import statistics
import time

import torch
from torch.nn import functional as F

import monitor
from seq2seq import Translator, sentences


def main(steps=60, batch=32):
    monitor.setup()
    torch.manual_seed(0)
    source, target = sentences()
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watch = monitor.Monitor(model, optimizer)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        rows = torch.randint(0, len(source), (batch,))
        logits = model(source[rows], target[rows, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        watch.after(step, loss.item())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
