import os
import shutil
import statistics
import tempfile
import time

import torch
from accelerate import Accelerator

from nets import Recommender

SAVE_EVERY = 60
STEPS = 62


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(11)
    model = Recommender()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    folder = tempfile.mkdtemp(prefix="rec-")
    times = []
    for step in range(1, STEPS + 1):
        t = time.perf_counter()
        u, i = torch.randint(20000, (640,)), torch.randint(12000, (640,))
        rating = torch.rand(640)
        loss = torch.nn.functional.mse_loss(model(u, i), rating)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % SAVE_EVERY == 0:
            accelerator.save_state(os.path.join(folder, "last"))
        times.append((time.perf_counter() - t) * 1000)
    shutil.rmtree(folder)
    times = times[3:]
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


if __name__ == "__main__":
    main()
