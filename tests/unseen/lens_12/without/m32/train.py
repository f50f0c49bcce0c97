import statistics
import time

import torch
from accelerate import Accelerator

from molecules import Binding, molecules
from scores import Scores


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    x, edges, active = molecules(320)
    model = Binding()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    scores, times = Scores(), []
    for step in range(64):
        start = time.perf_counter()
        for _ in range(2):
            i = torch.randint(320, (16,))
            with accelerator.accumulate(model):
                out = model(x[i], edges[i])
                loss = torch.nn.functional.binary_cross_entropy_with_logits(out, active[i])
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        times.append((time.perf_counter() - start) * 1000)
    times = times[3:]
    accelerator.print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    accelerator.end_training()


main()
