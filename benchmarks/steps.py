"""What the benchmarks of a step share: its ranks, its batches, its time, and where figures go."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from emberward.engine import MicroBatch
from emberward.recipe import Recipe

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results


def start_ranks(num_ranks: int) -> None:
    """Runs this script again as `num_ranks` ranks under torchrun and leaves with its exit code; returns in a rank."""
    if "RANK" in os.environ:
        return
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks)]
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    raise SystemExit(subprocess.call([*command, *rendezvous, *sys.argv], env=environment))


def batches_of(recipe: Recipe) -> list[MicroBatch]:
    """Random tokens; their values do not matter for the time."""
    size, length = recipe.batch.micro_batch or 1, recipe.model.seq_len
    tokens = [torch.randint(0, 256, (size, length + 1)) for _ in range(recipe.batch.accumulation or 1)]
    return [
        MicroBatch(inputs=each[:, :-1].clone(), labels=each[:, 1:].clone(), weights=torch.ones(size, length))
        for each in tokens
    ]


def timed(call: Callable[[], object]) -> float:
    """Seconds until every rank is done."""
    dist.barrier()
    started_s = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - started_s


def publish(
    name: str, figures: dict[str, object], *, what: str, measures: list[str], options: argparse.Namespace
) -> None:
    """Keeps the figures of one run of the benchmark, as an attempt of a round. `options` are of `add_options`."""
    results = Results(name, what=what, measures=measures, is_fresh=options.fresh, folder=options.into)
    results.add("all", figures)
    results.summarise(figures)
