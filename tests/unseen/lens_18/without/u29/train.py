import statistics
import time

import torch

from pairs import Pairs


def main(steps=60, batch=400, epoch=8):
    torch.manual_seed(0)
    model = Pairs()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    questions = torch.randn(4000, 192)
    answers = questions.roll(1, 1) + 0.1 * torch.randn(4000, 192)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, 4000, (batch,))
        loss = compiled(questions[picked], answers[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % epoch == 0:
            model.next_epoch()
        times.append(1e3 * (time.perf_counter() - began))
    print(f"loss {loss.item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
