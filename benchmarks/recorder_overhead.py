"""What the recorder of a live rank costs: a call, a step, memory.

    python benchmarks/recorder_overhead.py [--pairs 40] [--runs 4] [--output docs/measured/recorder_overhead.json]

Calls: one rank of gloo, the same call with and without the recorder in turn, blocks of 100, the fastest block of each
and the median of the paired differences; and the recorder's own part alone, around calls that do nothing. Steps: four
ranks of DDP in one set of processes, blocks of steps with and without in turn, so that the machine's noise falls on
both ("without" keeps wrappers that pass everything through; what those cost is told apart); and whole runs of the tiny
preset on two ranks, started with and without in turn. Ratios are with over without.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work
from torch.nn.parallel import DistributedDataParallel

from emberward.sources import recorder
from emberward.sources._heart import Heart
from emberward.sources._live import CURRENT, LiveRecorder
from emberward.sources._wrap import _wrapped_method, _wrapped_wait
from emberward.sources.attach import attach_environment
from emberward.sources.ring import Geometry, read_ring

ROOT = Path(__file__).resolve().parents[1]
RANKS = 4
BLOCK, STEPS = 100, 8


class Done:
    """Stands for a work that is done; one is enough for all calls."""


def attached(folder: str, *, rank: int = 0, world_size: int = 1) -> LiveRecorder:
    """This process's recorder, with the world initialised under it."""
    around = recorder.attach(folder, {}, (), {"rank": rank, "world_size": world_size})
    around(
        dist.init_process_group,
        ("gloo",),
        {"init_method": f"file://{folder}/store", "rank": rank, "world_size": world_size},
    )
    assert CURRENT.live is not None, "attached"
    return CURRENT.live


def fastest(function: Callable[[], object], *, repeats: int = 300) -> float:
    """Microseconds of the fastest block."""
    return min(timeit.repeat(function, number=BLOCK, repeat=repeats)) / BLOCK * 1e6


def measure_calls(pairs: int) -> dict[str, Any]:
    """One rank: what a call costs more."""
    folder = tempfile.mkdtemp(dir="/dev/shm")
    raw = vars(ProcessGroup)["allreduce"], vars(Work)["wait"]
    live = attached(folder)
    wrapped = vars(ProcessGroup)["allreduce"], vars(Work)["wait"]
    tensor = torch.ones(4)

    def call() -> None:
        dist.all_reduce(tensor)

    def block(methods: tuple[Any, Any]) -> float:
        ProcessGroup.allreduce, Work.wait = methods  # type: ignore[assignment, method-assign]
        return timeit.timeit(call, number=BLOCK) / BLOCK * 1e6

    rows, passing = [], []
    for _ in range(pairs * 10):
        rows.append((block(raw), block(wrapped)))
        CURRENT.live = None
        passing.append(block(wrapped))
        CURRENT.live = live
    # The recorder's own part, around calls that do nothing.
    work = Done()
    issue = _wrapped_method("allreduce", lambda handle, *args: work)
    wait = _wrapped_wait(lambda work: None)
    nothing = lambda handle, *args: work  # noqa: E731 (the same kind of function as the one that is wrapped)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    group, given = dist.group.WORLD, [tensor]

    def issued() -> None:
        issue(group, given, options)

    def completed() -> None:
        issue(group, given, options)
        wait(work)

    empty = fastest(lambda: nothing(group, given, options))
    heart_s = heart_price()
    dist.destroy_process_group()
    figures = {
        "event_us": fastest(issued) - empty,
        "event_with_completion_us": fastest(completed) - 2 * empty,
        "all_reduce_without_us": min(row[0] for row in rows),
        "all_reduce_with_us": min(row[1] for row in rows),
        "all_reduce_paired_difference_us_median": statistics.median(row[1] - row[0] for row in rows),
        "all_reduce_passed_through_us": min(passing),
        "heart_cpu_s_per_s": heart_s,
        "ring_bytes": Geometry().total_bytes,
    }
    shutil.rmtree(folder)
    return figures


def heart_price() -> float:
    """Processor seconds that the thread beside takes in a second of an idle process."""
    before, began = time.process_time(), time.monotonic()
    time.sleep(5)
    return (time.process_time() - before) / (time.monotonic() - began)


def ddp_rank(rank: int, folder: str, pairs: int, answers: Any) -> None:
    """One of the DDP ranks; rank 0 answers with pairs of seconds a step."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    live = attached(folder, rank=rank, world_size=RANKS)
    width = 512
    layers = [torch.nn.Linear(width, width) for _ in range(8)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(32, width)

    def block(is_on: bool) -> float:
        if live.heart is not None:
            live.heart.stop()
            live.heart = None
        CURRENT.live = live if is_on else None
        if is_on:
            heart = Heart(live)
            live.heart = heart
            heart.start()
        dist.barrier()
        began = time.perf_counter()
        for _ in range(STEPS):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            dist.all_reduce(loss.detach())
        return (time.perf_counter() - began) / STEPS

    block(True)
    rows = []
    for number in range(pairs):
        order = (False, True) if number % 2 else (True, False)
        found = {is_on: block(is_on) for is_on in order}
        rows.append((found[False], found[True]))
    CURRENT.live = live
    dist.destroy_process_group()
    if rank == 0:
        answers.put(rows)


def measure_ddp(pairs: int) -> dict[str, Any]:
    """Four ranks of DDP: the ratio of a step with the recorder to one without."""
    folder = tempfile.mkdtemp(dir="/dev/shm")
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    ranks = [context.Process(target=ddp_rank, args=(rank, folder, pairs, answers)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    rows = answers.get(timeout=600)
    for process in ranks:
        process.join()
    view = read_ring(next(Path(folder).glob("rank00000-*.ring")))
    shutil.rmtree(folder)
    return {**_ratios(rows), "block_steps": STEPS, "calls_a_step": 1 + 8, "problems": list(view.problems)}


def _ratios(rows: list[tuple[float, float]]) -> dict[str, Any]:
    ratios = sorted(on / off for off, on in rows)
    quarter = len(ratios) // 4
    return {
        "num_pairs": len(rows),
        "step_s_without_median": statistics.median(row[0] for row in rows),
        "step_s_with_median": statistics.median(row[1] for row in rows),
        "ratio_median": statistics.median(ratios),
        "ratio_quartiles": [ratios[quarter], ratios[-1 - quarter]],
        "ratio_of_fastest": min(row[1] for row in rows) / min(row[0] for row in rows),
    }


def measure_preset(runs: int) -> dict[str, Any]:
    """Whole runs of the tiny preset on two ranks: the ratio of the median step with the recorder to without."""
    sys.path.insert(0, str(ROOT / "tests"))
    from ranks.runs import make_run, write_text

    rows, memory = [], []
    with tempfile.TemporaryDirectory() as place:
        text = write_text(Path(place) / "text", num_files=200)
        for number in range(runs):
            found: dict[bool, float] = {}
            for is_on in (False, True) if number % 2 else (True, False):
                layout = ("layout.dp=2", "layout.tp=1", "layout.pp=1")
                sizes = ("steps=60", "evaluation.interval=1000", "save.interval=1000", "log.events=0")
                path = make_run(Path(place) / f"run{number}{is_on}", 2, *layout, *sizes, text=text)
                found[is_on], used = preset_run(path, is_on=is_on)
                memory.append((is_on, used))
            rows.append((found[False], found[True]))
    used = {is_on: statistics.median(size for on, size in memory if on is is_on) for is_on in (False, True)}
    return {**_ratios(rows), "peak_memory_with_minus_without_bytes": used[True] - used[False]}


def preset_run(path: Path, *, is_on: bool) -> tuple[float, int]:
    """The median seconds of a step of one run, and the peak memory of its processes together."""
    rings = Path(tempfile.mkdtemp(dir="/dev/shm"))
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    base = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "PYTHONWARNINGS": "ignore",
    }
    base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment = attach_environment(base, ring_folder=rings) if is_on else base
    command = [sys.executable, "-c", CHILD, str(path)]
    ranks = [
        subprocess.Popen(
            command, env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE
        )
        for rank in (0, 1)
    ]
    peak = sum(int(rank.communicate()[0].split()[-1]) for rank in ranks)
    if is_on:
        assert len(list(rings.glob("*.ring"))) == 2, "both ranks recorded"
    shutil.rmtree(rings)
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(line["step_s"] for line in lines[5:]), peak * 1024


CHILD = """
import resource, runpy, sys
sys.argv = ["rank", "--folder", sys.argv[1]]
try:
    runpy.run_module("emberward.rank", run_name="__main__")
except SystemExit:
    pass
sys.stdout.write(f"\\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\\n")
"""


def main() -> None:
    """Measures and prints, or writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--parts", default="calls,ddp,preset")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "calls": lambda: measure_calls(options.pairs),
        "ddp": lambda: measure_ddp(options.pairs),
        "preset": lambda: measure_preset(options.runs),
    }
    figures: dict[str, Any] = {}
    if options.output is not None and options.output.exists():
        figures = json.loads(options.output.read_text(encoding="utf-8"))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    for name in options.parts.split(","):
        figures[name] = {**parts[name](), "load": os.getloadavg()[0], "commit": commit or None}
    figures["torch"] = torch.__version__
    text = json.dumps(figures, indent=2)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
