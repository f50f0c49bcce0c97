import statistics
import time

import torch
from torch.nn import functional as F

from models import answers, language_model


def main(steps=60, batch=12):
    """The student learns from the teacher on what it says itself."""
    torch.manual_seed(0)
    teacher, student = language_model(160, 2).eval().requires_grad_(False), language_model(128, 2)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, fused=True)
    times = []
    for step in range(steps):
        tick = time.perf_counter()
        prompts = torch.randint(1, 120, (batch, 12))
        said, own = answers(student, prompts)
        with torch.no_grad():
            wanted = teacher(said).logits[:, own].log_softmax(-1)
        guess = student(said).logits[:, own].log_softmax(-1)
        loss = F.kl_div(wanted, guess, log_target=True, reduction="sum") / (batch * 6)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - tick))
    print(f"loss {loss.item():.6f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")


if __name__ == "__main__":
    main()
