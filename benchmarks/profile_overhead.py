"""What the sampler of `emberward profile` costs a step: blocks of steps with and without it in one process, A B B A.

    python benchmarks/profile_overhead.py [--pairs 20]

The step is a small network's forward, backward and update, of one thread, some 5 ms long. Of each block the median
step is taken, by the clock and by the training thread's processor time; a pair is a block with the sampler beside one
without.
The processor time of the whole process counts the sampling thread too. On a machine that others use the processor times
are the ones to believe. Result: docs/measured/profile_overhead.json.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from emberward.sources._sampler import Sampler

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

STEPS = 60
MEASURES = ("src/emberward/sources/_sampler.py", "benchmarks/profile_overhead.py")
HEAD = {"rank": 0, "world_size": None, "device": "cpu"}


def block(model: torch.nn.Module, optimizer: torch.optim.Optimizer, folder: Path | None) -> tuple[float, float, float]:
    """Median seconds of a step by the clock and by the thread, and mean processor seconds of the process."""
    sampler = None
    if folder is not None:
        path = folder / "rank00000-1.lens"
        sampler = Sampler(path, warmup=1, num_steps=10 * STEPS, head=lambda: HEAD, flag=lambda: "")
        sampler.stepped()
    walls, threads = [], []
    process = time.process_time()
    for _ in range(STEPS):
        began, own = time.perf_counter(), time.thread_time()
        model(torch.ones(64, 256)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if sampler is not None:
            sampler.stepped()
        walls.append(time.perf_counter() - began)
        threads.append(time.thread_time() - own)
    process = (time.process_time() - process) / STEPS
    if sampler is not None:
        sampler.end()
    return statistics.median(walls), statistics.median(threads), process


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    add_options(parser)
    options = parser.parse_args()
    pairs = options.pairs
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(12)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    ratios: list[tuple[float, float, float]] = []
    steps = []
    with tempfile.TemporaryDirectory() as name:
        block(model, optimizer, None)
        for pair in range(pairs):
            order = (None, Path(name)) if pair % 2 == 0 else (Path(name), None)
            by = {folder is not None: block(model, optimizer, folder) for folder in order}
            ratios.append((by[True][0] / by[False][0], by[True][1] / by[False][1], by[True][2] / by[False][2]))
            steps.append(by[False][0])
    values = {}
    for index, what in enumerate(("clock", "training_thread", "process")):
        each = sorted(ratio[index] for ratio in ratios)
        low, _, high = statistics.quantiles(each, n=4)
        values[what] = {"median": statistics.median(each), "quartiles": [low, high]}
    step_ms = 1000 * statistics.median(steps)
    results = Results(
        "profile_overhead",
        what="steps with the sampler of `emberward profile` over steps without, in turns in one process",
        measures=MEASURES,
        settings={"pairs": pairs, "steps": STEPS},
        is_fresh=options.fresh,
        folder=options.into,
    )
    found = {"step_ms": round(step_ms, 3), **values}
    results.add("steps", found)
    results.summarise(found)
    print(found)


if __name__ == "__main__":
    main()
