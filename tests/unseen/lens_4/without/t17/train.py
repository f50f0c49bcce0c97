"""Small classifier; the run's records go to a JSON file with what a record needs to be read alone."""
import logging
import statistics
import time
import torch
from torch import nn
from records import open_log

CONFIG = {f"layer.{i}.{k}": [i, k, 0.1 * i] for i in range(700) for k in ("lr", "decay", "init", "drop")}


def make_model():
    return nn.Sequential(nn.Linear(30, 60), nn.SiLU(), nn.Linear(60, 5))


def forward(model, x):
    time.sleep(0.048)
    return model(x)


def train(model, log, steps=30):
    opt = torch.optim.NAdam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(9)
    took, running = [], 0.0
    log.info("start", extra={"data": {"config": CONFIG}})
    for step in range(steps):
        t = time.perf_counter()
        x, y = torch.randn(20, 30, generator=g), torch.randint(5, (20,), generator=g)
        loss = nn.functional.cross_entropy(forward(model, x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
        log.info("step", extra={"data": {"step": step, "loss": running / (step + 1)}})
        took.append(time.perf_counter() - t)
    return took


if __name__ == "__main__":
    torch.manual_seed(2)
    took = train(make_model(), open_log("run.jsonl"))
    logging.shutdown()
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
