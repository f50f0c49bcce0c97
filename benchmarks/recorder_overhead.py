"""What the recorder of a live rank costs: a call, a step, memory.

    python benchmarks/recorder_overhead.py [--pairs 40]

Calls: one rank of gloo, the same call without and with the recorder in the order A B B A, blocks of 100, by the clock
and by the main thread's processor time, the least of each and the median of the paired differences; and the recorder's
own part alone, around calls that do nothing, in turn with the bare ones, least and median; in both torch's options
are given their reduction first, as torch does, because the recorder takes part in that. Steps: four
ranks of DDP, and two ranks of the tiny preset, each in one set of processes that takes turns, a few steps with and a
few without, so that the machine's noise falls on both. "Without" keeps wrappers that pass everything through; what
those cost is told apart, and so is the thread beside, which costs by the second and not by the step. Ratios are with
over without, of processor time of all ranks together and of time; on a machine that others use too the first is the
one to believe.
"""

import argparse
import json
import multiprocessing
import os
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
from emberward.sources._heartbeat import Heart
from emberward.sources._issue import short_wait
from emberward.sources._live import CURRENT, LiveRecorder
from emberward.sources._wrap import _wrapped_wait, recorded_method
from emberward.sources.attach import attach_environment
from emberward.sources.ring import Geometry, read_ring

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

ROOT = Path(__file__).resolve().parents[1]
RANKS = 4
BLOCK, STEPS = 100, 4


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


def measure_calls(folder: str, pairs: int) -> dict[str, Any]:
    """One rank: what a call costs more."""
    options_type, total = dist.AllreduceOptions, dist.ReduceOp.SUM
    raw = vars(ProcessGroup)["allreduce"], vars(Work)["wait"], vars(options_type)["reduceOp"]
    live = attached(folder)
    wrapped = vars(ProcessGroup)["allreduce"], vars(Work)["wait"], vars(options_type)["reduceOp"]
    tensor = torch.ones(4)

    def call() -> None:
        dist.all_reduce(tensor)

    def block(methods: tuple[Any, Any, Any]) -> tuple[float, float]:
        ProcessGroup.allreduce, Work.wait, options_type.reduceOp = methods  # type: ignore[assignment, method-assign]
        spent = time.thread_time()
        took = timeit.timeit(call, number=BLOCK)
        return took / BLOCK * 1e6, (time.thread_time() - spent) / BLOCK * 1e6

    rows, passing = [], []
    for number in range(pairs * 10):
        order = (raw, wrapped) if number % 2 == 0 else (wrapped, raw)
        found = {methods is wrapped: block(methods) for methods in order}
        rows.append((*found[False], *found[True]))
        CURRENT.live = None
        passing.append(block(wrapped)[0])
        CURRENT.live = live
    # The recorder's own part, around calls that do nothing.
    work = Done()
    issue = recorded_method(live, "allreduce", lambda handle, *args: work)
    wait = short_wait(live, lambda work: None, _wrapped_wait(lambda work: None))
    nothing = lambda handle, *args: work  # noqa: E731 (the same kind of function as the one that is wrapped)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    group, given, set_plainly = dist.group.WORLD, [tensor], raw[2].fset

    def issued() -> None:
        options.reduceOp = total
        issue(group, given, options)

    def completed() -> None:
        options.reduceOp = total
        issue(group, given, options)
        wait(work)

    def bare() -> None:
        set_plainly(options, total)
        nothing(group, given, options)

    parts = [
        [timeit.timeit(each, number=BLOCK) / BLOCK * 1e6 for each in (bare, issued, completed)] for _ in range(3000)
    ]
    empty, event, whole = (min(row[index] for row in parts) for index in range(3))
    empty_wait = min(timeit.repeat(lambda: nothing(work), number=BLOCK, repeat=300)) / BLOCK * 1e6
    heart_s = heart_price(live, call)
    dist.destroy_process_group()
    figures = {
        "event_us": event - empty,
        "event_us_median_of_blocks": statistics.median(row[1] - row[0] for row in parts),
        "event_with_completion_us": whole - empty - empty_wait,
        "event_with_completion_us_median_of_blocks": statistics.median(row[2] - row[0] for row in parts) - empty_wait,
        "num_blocks": len(parts),
        "all_reduce_without_us": min(row[0] for row in rows),
        "all_reduce_with_us": min(row[2] for row in rows),
        "all_reduce_paired_difference_us_median": statistics.median(row[2] - row[0] for row in rows),
        "all_reduce_main_thread_cpu_difference_us": min(row[3] for row in rows) - min(row[1] for row in rows),
        "num_pairs": len(rows),
        "all_reduce_passed_through_us": min(passing),
        "heart_cpu_s_per_s": heart_s,
        "ring_bytes": Geometry().total_bytes,
    }
    return figures


def heart_price(live: LiveRecorder, call: Callable[[], object]) -> float:
    """Processor seconds that the thread beside takes in a second of a process that calls five times in it."""
    heart = live.heart
    assert isinstance(heart, Heart)
    assert heart.ident is not None, "it runs"
    clock = time.pthread_getcpuclockid(heart.ident)
    before, began = time.clock_gettime(clock), time.monotonic()
    for _ in range(25):
        time.sleep(0.2)
        call()
    return (time.clock_gettime(clock) - before) / (time.monotonic() - began)


def switch(live: LiveRecorder, *, is_on: bool) -> None:
    """Turns the recorder on or off. Its thread stays off: what that costs is by the second, and measured apart."""
    if live.heart is not None:
        live.heart.stop()
        live.heart = None
    CURRENT.live = live if is_on else None


def ddp_rank(rank: int, folder: str, pairs: int, answers: Any) -> None:
    """One of the DDP ranks; answers with rows of seconds and processor seconds, without and with."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    live = attached(folder, rank=rank, world_size=RANKS)
    width = 512
    layers = [torch.nn.Linear(width, width) for _ in range(8)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(32, width)

    def block(is_on: bool) -> tuple[float, float]:
        switch(live, is_on=is_on)
        dist.barrier()
        began, spent = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            dist.all_reduce(loss.detach())
        return time.perf_counter() - began, time.process_time() - spent

    block(True)
    rows = []
    for number in range(pairs):
        order = (False, True) if number % 2 else (True, False)
        found = {is_on: block(is_on) for is_on in order}
        rows.append((*found[False], *found[True]))
    CURRENT.live = live
    dist.destroy_process_group()
    answers.put(rows)


def measure_ddp(folder: str, pairs: int) -> dict[str, Any]:
    """Four ranks of DDP: the ratio of a step with the recorder to one without."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    ranks = [context.Process(target=ddp_rank, args=(rank, folder, pairs, answers)) for rank in range(RANKS)]
    for process in ranks:
        process.start()
    rows = [answers.get(timeout=600) for _ in ranks]
    for process in ranks:
        process.join()
    view = read_ring(next(Path(folder).glob("rank00000-*.ring")))
    return {**_ratios(rows), "block_steps": STEPS, "calls_a_step": 1 + 8, "problems": list(view.problems)}


def _ratios(ranks: list[list[tuple[float, float, float, float]]]) -> dict[str, Any]:
    """Of rows of each rank: the ratios of blocks, with over without, all ranks together."""
    rows = [tuple(map(sum, zip(*block, strict=True))) for block in zip(*ranks, strict=True)]
    spent = sorted(row[3] / row[1] for row in rows)
    took = sorted(row[2] / row[0] for row in rows)
    quarter = len(rows) // 4
    return {
        "num_pairs": len(rows),
        "step_s_without_median": statistics.median(row[0] for row in rows) / STEPS / len(ranks),
        "step_cpu_s_without_median": statistics.median(row[1] for row in rows) / STEPS / len(ranks),
        "cpu_ratio_median": statistics.median(spent),
        "cpu_ratio_quartiles": [spent[quarter], spent[-1 - quarter]],
        "cpu_ratio_of_sums": sum(row[3] for row in rows) / sum(row[1] for row in rows),
        "time_ratio_median": statistics.median(took),
        "time_ratio_quartiles": [took[quarter], took[-1 - quarter]],
    }


def measure_preset(rings: str, pairs: int) -> dict[str, Any]:
    """Two ranks of the tiny preset under the recorder, which takes turns."""
    sys.path.insert(0, str(ROOT / "tests"))
    from ports import reserve_port
    from ranks.runs import make_run, write_text

    with tempfile.TemporaryDirectory() as place:
        layout = ("layout.dp=2", "layout.tp=1", "layout.pp=1", "model.hidden=128", "model.seq_len=128")
        sizes = (
            f"steps={(2 * pairs + 2) * STEPS}",
            "evaluation.interval=100000",
            "save.interval=100000",
            "log.events=0",
        )
        path = make_run(Path(place) / "run", 2, *layout, *sizes, text=write_text(Path(place) / "text", num_files=200))
        base = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port()), "PYTHONWARNINGS": "ignore"}
        environment = attach_environment(base, ring_folder=Path(rings))
        command = [sys.executable, __file__, "--rank-of", str(path)]
        ranks = [
            subprocess.Popen(
                command, env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.DEVNULL
            )
            for rank in (0, 1)
        ]
        for rank in ranks:
            rank.wait(3600.0)
        rows = [json.loads((path / f"blocks{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1)]
    return _ratios(rows)


def preset_rank(path: str) -> None:
    """A rank of the preset whose recorder takes turns; leaves its rows in the run's folder."""
    import runpy

    from emberward.rank._trainer import Trainer

    blocks: list[list[float]] = []
    one_step = Trainer._one_step
    kept: list[LiveRecorder] = []

    def step(trainer: Trainer, loader: Any) -> Any:
        block, first = divmod(trainer.position.step, STEPS)
        if not kept and CURRENT.live is not None:
            kept.append(CURRENT.live)
        if first == 0:
            # All but the last block have ended; the first pair warms up. A rank leaves without looking back.
            done = list(zip(blocks[2::2], blocks[3::2], strict=False))
            pairs = [pair if number % 2 else pair[::-1] for number, pair in enumerate(done)]
            answer = Path(path) / f"blocks{trainer.world.rank}.json"
            answer.write_text(json.dumps([[*off, *on] for off, on in pairs]), encoding="utf-8")
            switch(kept[0], is_on=block % 4 in (1, 2))
            blocks.append([0.0, 0.0])
        began, spent = time.perf_counter(), time.process_time()
        totals = one_step(trainer, loader)
        blocks[-1][0] += time.perf_counter() - began
        blocks[-1][1] += time.process_time() - spent
        return totals

    Trainer._one_step = step  # type: ignore[method-assign]
    sys.argv = ["rank", "--folder", path]
    runpy.run_module("emberward.rank", run_name="__main__")


def main() -> None:
    """Measures and prints, or writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--parts", default="calls,ddp,preset")
    add_options(parser)
    parser.add_argument("--rank-of", help="(a rank of the preset itself)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.rank_of is not None:
        preset_rank(options.rank_of)
        return
    parts: dict[str, Callable[[str, int], dict[str, Any]]] = {
        "calls": measure_calls,
        "ddp": measure_ddp,
        "preset": measure_preset,
    }
    results = Results(
        "recorder_overhead",
        what="what the recorder costs a call, a DDP step of 4 ranks and a step of the tiny preset, in turns",
        measures=["src/emberward/sources"],
        settings={"pairs": options.pairs},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for name in options.parts.split(","):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
            found = parts[name](rings, options.pairs)
        results.add(name, found)
    results.summarise(results.latest())


if __name__ == "__main__":
    main()
