"""What the training process spends on a batch that a worker of a DataLoader has ready, beside one that it makes itself.

    python benchmarks/worker_handover.py [--rounds 6]

The data set gives a row and a label of tensors that are there, so that to make a batch costs next to nothing. Between
two batches the training thread computes long enough for the next to be ready. Of each batch the time of ``next`` is
taken, by the clock and by the thread's processor time; loaders without and with a worker are asked in turns. What a
worker's batch costs the training thread is what it has to lose to data before a worker gains it anything: `HAND_OVER_S`
of the lens.
Result: docs/measured/worker_handover.json.
"""

import argparse
import itertools
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

BATCHES, FIRST = 60, 10
ROWS = 32
MEASURES = ("benchmarks/worker_handover.py",)


def asked(workers: int, work: torch.Tensor) -> tuple[float, float]:
    """Median seconds of a ``next`` by the clock and by the training thread."""
    loader = DataLoader(
        TensorDataset(torch.randn(10_000, 64), torch.randint(0, 9, (10_000,))),
        batch_size=ROWS,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
    )
    walls, threads = [], []
    batches = iter(loader)
    for _ in range(BATCHES):
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            work @ work
        began, own = time.perf_counter(), time.thread_time()
        next(batches)
        walls.append(time.perf_counter() - began)
        threads.append(time.thread_time() - own)
    return statistics.median(walls[FIRST:]), statistics.median(threads[FIRST:])


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=6)
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    work = torch.ones(128, 128)
    results = Results(
        "worker_handover",
        what="seconds of a `next` of a DataLoader whose worker has the batch ready, and of one without workers",
        measures=MEASURES,
        settings={"rounds": options.rounds, "batches": BATCHES, "rows": ROWS},
        is_fresh=options.fresh,
        folder=options.into,
    )
    found: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for turn, workers in itertools.product(range(options.rounds), (0, 1)):
        wall_s, thread_s = asked(workers, work)
        found[workers].append((wall_s, thread_s))
        results.add(f"{workers} workers, round {turn}", {"wall_ms": 1000 * wall_s, "thread_ms": 1000 * thread_s})
    middle = {
        f"{what}, {workers} workers": round(1000 * statistics.median(each[index] for each in found[workers]), 3)
        for workers in found
        for index, what in enumerate(("wall_ms", "thread_ms"))
    }
    results.summarise(middle)
    print(middle)


if __name__ == "__main__":
    main()
