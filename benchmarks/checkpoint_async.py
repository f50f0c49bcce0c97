"""Saves beside the training, against saves in the foreground, torch's DCP, its async_save, and torch.save.

    python benchmarks/checkpoint_async.py [--megabytes 240] [--rounds 7] [--folder DIR]
        [--output docs/measured/checkpoint_async.json]

One process with one thread of torch trains a small stack of matrices; its weights and two moments are the state. In
every round all ways take turns, so that the machine's noise falls on all. `blocked_s` is the time in the call.
`lost_s` is what training lost from the call until the save was whole: the time of the steps in between, less as many
of the same round's undisturbed steps, plus `blocked_s`. Every file is fsynced in all ways. Loads come from the page
cache and go into tensors that are there.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

from emberward.checkpoint import BackgroundSaves, Keep, Shard, alone, latest, load, save
from emberward.recipe import ReadBack

HIDDEN, BATCH = 1024, 32
QUIET_STEPS = 12


class Job:
    """Training: a step multiplies by some of the weights and updates all of them, as an optimizer does."""

    def __init__(self, num_bytes: int) -> None:
        generator = torch.Generator().manual_seed(1)
        count = max(num_bytes // (3 * 4 * HIDDEN * HIDDEN), 1)
        self.state: dict[str, torch.Tensor] = {}
        for number in range(count):
            self.state[f"model/{number}"] = torch.randn(HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5
            for moment in ("exp_avg", "exp_avg_sq"):
                self.state[f"optim/{moment}/{number}"] = torch.rand(HIDDEN, HIDDEN, generator=generator)
        self.weights = [value for name, value in self.state.items() if name.startswith("model/")]
        self.input = torch.randn(BATCH, HIDDEN, generator=generator)
        self.num_bytes = sum(value.nbytes for value in self.state.values())

    def step(self) -> float:
        """Seconds of one step."""
        began_s = time.perf_counter()
        value = self.input
        for weight in self.weights:
            value = torch.tanh(value @ weight)
        self.weights[0].add_(value.mean(), alpha=1e-6)
        return time.perf_counter() - began_s

    def shards(self) -> list[Shard]:
        """The state as the checkpoints want it; shares memory."""
        return [
            Shard(name=name, global_shape=tuple(v.shape), box=tuple((0, n) for n in v.shape), tensor=v)
            for name, v in self.state.items()
        ]


Ended = Callable[[], bool]


def measure(job: Job, begin: Callable[[], Ended]) -> dict[str, float]:
    """What a save cost: in the call, and until it was whole while training went on."""
    quiet_s = statistics.median(job.step() for _ in range(QUIET_STEPS))
    began_s = time.perf_counter()
    ended = begin()
    blocked_s = time.perf_counter() - began_s
    steps = []
    while not ended():
        steps.append(job.step())
    whole_s = time.perf_counter() - began_s
    lost_s = blocked_s + max(sum(steps) - quiet_s * len(steps), 0.0)
    return {"blocked_s": blocked_s, "whole_s": whole_s, "lost_s": lost_s, "steps": len(steps), "step_s": quiet_s}


def ways(job: Job, folder: Path) -> dict[str, Callable[[], Ended]]:
    """Every way to save, each into a folder of its own that is emptied first."""
    beside = {
        how: BackgroundSaves(
            folder / f"beside {how}", rank=0, world_size=1, agreement=lambda n: alone, keep=Keep(last=1), read_back=how
        )
        for how in (ReadBack.NONE, ReadBack.FULL)
    }
    step = {"now": 0}

    def foreground(how: ReadBack) -> Ended:
        step["now"] += 1
        shelf = folder / f"foreground {how}"
        save(
            shelf, step=step["now"], shards=job.shards(), meta={}, rank=0, world_size=1, agree=alone, keep=1,
            read_back=how,
        )  # fmt: skip
        return lambda: True

    def background(how: ReadBack) -> Ended:
        step["now"] += 1
        saves = beside[how]
        saves.begin(step=step["now"], shards=job.shards(), meta={})

        def ended() -> bool:
            written = saves.poll()
            if written is not None and written.error is not None:
                raise written.error
            return written is not None

        return ended

    def plain() -> Ended:
        with (folder / "plain.pt").open("wb") as file:
            torch.save(job.state, file)
            file.flush()
            os.fsync(file.fileno())
        return lambda: True

    def dcp_foreground() -> Ended:
        shutil.rmtree(folder / "dcp", ignore_errors=True)
        dcp.save(dict(job.state), checkpoint_id=folder / "dcp")
        return lambda: True

    def dcp_async() -> Ended:
        shutil.rmtree(folder / "dcp async", ignore_errors=True)
        answer: Any = dcp.async_save(dict(job.state), checkpoint_id=folder / "dcp async")
        future: Future[Any] = getattr(answer, "upload_completion", answer)

        def ended() -> bool:
            if not future.done():
                return False
            future.result()
            return True

        return ended

    return {
        "emberward foreground": lambda: foreground(ReadBack.NONE),
        "emberward foreground, read back": lambda: foreground(ReadBack.FULL),
        "emberward beside": lambda: background(ReadBack.NONE),
        "emberward beside, read back": lambda: background(ReadBack.FULL),
        "torch.save": plain,
        "DCP save": dcp_foreground,
        "DCP async_save": dcp_async,
    }


def loads(job: Job, folder: Path) -> dict[str, Callable[[], object]]:
    """Every way to load, into tensors that are there."""
    target = Job(job.num_bytes)

    def plain() -> None:
        read = torch.load(folder / "plain.pt", mmap=True, weights_only=True)
        for name, value in target.state.items():
            value.copy_(read[name])

    def ours() -> None:
        path = latest(folder / f"foreground {ReadBack.NONE}")
        assert path is not None
        load(path, target.shards())

    return {
        "emberward, every byte proved": ours,
        "torch.load (memory map) and copy": plain,
        "DCP load": lambda: dcp.load(dict(target.state), checkpoint_id=folder / "dcp"),
    }


def summary(rows: list[dict[str, float]], num_bytes: int) -> dict[str, float]:
    """Medians over the rounds; the first round warms up and does not count."""
    middle = {key: statistics.median(row[key] for row in rows[1:]) for key in rows[0]}
    return {**middle, "first_blocked_s": rows[0]["blocked_s"], "MB_per_s": num_bytes / middle["whole_s"] / 1e6}


def ratio(rows: dict[str, list[dict[str, float]]], a: tuple[str, str], b: tuple[str, str]) -> float:
    """Median over rounds of one figure over another of the same round."""
    return statistics.median(x[a[1]] / y[b[1]] for x, y in list(zip(rows[a[0]], rows[b[0]], strict=True))[1:])


def main() -> None:
    """Writes the figures to the output and to standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as name, torch.no_grad():
        folder = Path(name)
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        job = Job(options.megabytes * 1_000_000)
        saving, rows = ways(job, folder), dict[str, list[dict[str, float]]]()
        for _ in range(options.rounds + 1):
            for way, begin in saving.items():
                rows.setdefault(way, []).append(measure(job, begin))
        seconds: dict[str, list[float]] = {}
        for _ in range(options.rounds + 1):
            for way, run in loads(job, folder).items():
                began_s = time.perf_counter()
                run()
                seconds.setdefault(way, []).append(time.perf_counter() - began_s)
        dist.destroy_process_group()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    result = {
        "what": "one process, one thread of torch; medians over rounds in which all ways take turns",
        "state_bytes": job.num_bytes,
        "rounds": options.rounds,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "load_average": os.getloadavg(),
        "niceness": os.nice(0),
        "torch": torch.__version__,
        "commit": commit,
        "saves": {way: summary(found, job.num_bytes) for way, found in rows.items()},
        "load_MB_per_s": {way: job.num_bytes / statistics.median(s[1:]) / 1e6 for way, s in seconds.items()},
        "ratios": {
            "blocked beside / foreground": ratio(
                rows, ("emberward beside", "blocked_s"), ("emberward foreground", "whole_s")
            ),
            "blocked beside / foreground, both read back": ratio(
                rows, ("emberward beside, read back", "blocked_s"), ("emberward foreground, read back", "whole_s")
            ),
            "lost beside / foreground": ratio(
                rows, ("emberward beside", "lost_s"), ("emberward foreground", "whole_s")
            ),
            "lost beside / foreground, both read back": ratio(
                rows, ("emberward beside, read back", "lost_s"), ("emberward foreground, read back", "whole_s")
            ),
            "blocked beside / DCP async_save": ratio(
                rows, ("emberward beside", "blocked_s"), ("DCP async_save", "blocked_s")
            ),
            "lost beside / DCP async_save": ratio(rows, ("emberward beside", "lost_s"), ("DCP async_save", "lost_s")),
            "foreground / DCP save": ratio(rows, ("emberward foreground", "whole_s"), ("DCP save", "whole_s")),
            "foreground / torch.save": ratio(rows, ("emberward foreground", "whole_s"), ("torch.save", "whole_s")),
        },
    }
    text = json.dumps(result, indent=2) + "\n"
    sys.stdout.write(text)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
