"""What the benchmarks of a step share: its ranks, its batches, its time, and where figures go."""

import json
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
        MicroBatch(tokens=each[:, :-1].clone(), labels=each[:, 1:].clone(), weights=torch.ones(size, length))
        for each in tokens
    ]


def timed(call: Callable[[], object]) -> float:
    """Seconds until every rank is done."""
    dist.barrier()
    started_s = time.perf_counter()
    call()
    dist.barrier()
    return time.perf_counter() - started_s


def publish(figures: dict[str, object], output: Path | None) -> None:
    """Prints the figures with their commit, and writes them to `output`."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    text = json.dumps({**figures, "torch": torch.__version__, "commit": commit or None}, indent=2) + "\n"
    sys.stdout.write(text)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
