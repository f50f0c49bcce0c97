"""Step time and memory of the engine against torch's own parts at 20M and 100M parameters, in paired rounds.

    python benchmarks/engine_speed.py [--only 20M/fp32/2/plain] [--seconds 12] [--fresh]

A row is size/type/ranks/comparison. The engines of a row run in the same processes and take turns step by step in an
order drawn anew each round, so that the machine's noise falls on all alike. A row goes on for at least 4 rounds and
until `--seconds` have passed. Memory is that of a process of its own for each engine: peak resident memory over two
steps less that before the model was built, of the rank that takes most. Processor time is of a rank with all threads.

The model is llama's (causal attention, gated feed-forward, untied head) of plain torch modules for the peers. They are
written as one would today: `DistributedDataParallel` (bf16 by autocast), FSDP2 layer by layer, DTensor tensor
parallelism with sequence parallelism, `PipelineStage` under `Schedule1F1B`; fused AdamW, clipping by
`clip_grad_norm_`. With four ranks tensor and pipeline parallelism of two are beside FSDP2 (kept whole) over two.
"""

import argparse
import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from engine_peers import PEERS
from steps import batches_of

from emberward.engine import Engine, build_world
from emberward.families import LlamaConfig, ModelConfig
from emberward.recipe import (
    BatchConfig,
    ComputeType,
    LayoutConfig,
    OptimConfig,
    PrecisionConfig,
    Recipe,
    ZeroStage,
    ends_of,
    mesh_of,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

Step = Callable[[], object]
SIZES = {
    "20M": {"num_layers": 8, "hidden": 384, "num_heads": 6, "ffn_hidden": 1024, "vocab_size": 8192},
    "100M": {"num_layers": 11, "hidden": 768, "num_heads": 12, "ffn_hidden": 2048, "vocab_size": 16384},
}
COMPARISONS = {
    "plain": ({"zero": 0}, ["ddp"]),
    "zero2": ({"zero": 2}, ["fsdp2_kept"]),
    "zero3": ({"zero": 3}, ["fsdp2"]),
    "tensor": ({"zero": 1, "tp": 2}, ["dtensor"]),
    "pipeline": ({"zero": 1, "pp": 2}, ["schedule1f1b"]),
}
"""Our layout and the peers of each comparison."""
SEQ_LEN, MIN_ROUNDS, MAX_ROUNDS, WARM_UP = 128, 4, 20, 2
START_LIMIT_S, ROW_LIMIT_S = 60.0, 240.0


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    size: str
    compute: str
    num_ranks: int
    comparison: str

    @property
    def key(self) -> str:
        """Its name in the results."""
        return f"{self.size}/{self.compute}/{self.num_ranks}/{self.comparison}"

    @property
    def engines(self) -> list[str]:
        """Ours first."""
        return ["ours", *COMPARISONS[self.comparison][1]]

    def recipe(self) -> Recipe:
        """What ours runs; peers take sizes, layout and batch from it."""
        layout = dict(COMPARISONS[self.comparison][0])
        zero = ZeroStage(layout.pop("zero"))
        dp = self.num_ranks // (layout.get("tp", 1) * layout.get("pp", 1))
        accumulation = 4 if "pp" in layout else 1
        micro_batch = 2 if self.size == "20M" and accumulation == 1 else 1
        return Recipe(
            schedule="1f1b",
            model=ModelConfig(family="llama", llama=LlamaConfig(), seq_len=SEQ_LEN, init_std=0.02, **SIZES[self.size]),
            layout=LayoutConfig(dp=dp, zero=zero, **layout),
            batch=BatchConfig(
                global_batch=micro_batch * accumulation * dp, micro_batch=micro_batch, accumulation=accumulation
            ),
            optim=OptimConfig(lr=1e-3, clip=1.0, weight_decay=0.1),
            precision=PrecisionConfig(compute=ComputeType(self.compute)),
        )


def rows() -> list[Row]:
    """All of them, small before large."""
    return [
        Row(size, compute, num_ranks, comparison)
        for size in SIZES
        for compute in ("fp32", "bf16")
        for num_ranks in (2, 4)
        for comparison in COMPARISONS
    ]


# -- in a rank ---------------------------------------------------------------------------------------------------------


def step_of(name: str, row: Row) -> Step:
    """A step of the engine `name`. All ranks must call; blocks."""
    recipe = row.recipe()
    batches = batches_of(recipe)
    if name != "ours":
        return PEERS[name](recipe, batches)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=120, ends=ends_of(recipe))
    engine = Engine(recipe, world)
    return lambda: engine.train_step(batches, lr=1e-3, step=0)


def paired(row: Row, seconds: float) -> dict[str, Any]:
    """Wall and processor seconds of each engine's steps, by round."""
    steps = {name: step_of(name, row) for name in row.engines}
    wall: dict[str, list[float]] = {name: [] for name in steps}
    processor: dict[str, list[float]] = {name: [] for name in steps}
    order, began_s, go_on = random.Random(0), 0.0, torch.ones(1)
    for number in range(WARM_UP + MAX_ROUNDS):
        if number == WARM_UP:
            began_s = time.perf_counter()
        names = list(steps)
        order.shuffle(names)
        for name in names:
            dist.barrier()
            started_s, used_s = time.perf_counter(), time.process_time()
            steps[name]()
            used_s = time.process_time() - used_s
            dist.barrier()
            if number >= WARM_UP:
                wall[name].append(time.perf_counter() - started_s)
                processor[name].append(used_s)
        gc.collect()
        if number + 1 >= WARM_UP + MIN_ROUNDS:
            go_on.fill_(float(time.perf_counter() - began_s < seconds))
            dist.broadcast(go_on, 0)
            if not go_on.item():
                break
    return {"wall_s": wall, "processor_s": processor}


def memory(row: Row, name: str) -> dict[str, Any]:
    """MiB that two steps of the engine add to the process at their peak, the most of all ranks."""
    dist.barrier()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: proc(5)
    before = resident_kib("VmRSS")
    step = step_of(name, row)
    for _ in range(2):
        step()
    most = torch.tensor([resident_kib("VmHWM") - before])
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return {"mib": round(int(most) / 1024)}


def resident_kib(key: str) -> int:
    """A figure of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/self/status has no {key}")


# -- the ranks ---------------------------------------------------------------------------------------------------------


def in_ranks(num_ranks: int, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` gives on rank 0, called in forks of this process, which has everything imported. Bounded."""
    with tempfile.TemporaryDirectory() as folder:
        pids = [_fork(rank, num_ranks, work, Path(folder)) for rank in range(num_ranks)]
        end_s, left = time.monotonic() + ROW_LIMIT_S, dict.fromkeys(pids)
        while left and time.monotonic() < end_s:
            for pid in list(left):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    del left[pid]
                    if status:
                        end_s = 0.0
            time.sleep(0.02)
        for pid in left:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        found = Path(folder, "found.json")
        if left or not found.exists():
            said = sorted(path.read_text() for path in Path(folder).glob("error*"))
            return {"error": said[0].strip().splitlines()[-1] if said else f"over {ROW_LIMIT_S:.0f} s"}
        return json.loads(found.read_text())


def _fork(rank: int, num_ranks: int, work: Callable[[], dict[str, Any]], folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        torch.manual_seed(rank)
        store = dist.FileStore(str(folder / "store"), num_ranks)
        limit = timedelta(seconds=START_LIMIT_S)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=num_ranks, timeout=limit)
        found = work()
        if rank == 0:
            (folder / "found.json").write_text(json.dumps(found))
        dist.barrier()
        code = 0
    except BaseException:  # noqa: BLE001 (a fork must not go on as its parent would; the text is reported)
        text = traceback.format_exc()
        (folder / f"error{rank}").write_text(text)
        sys.stderr.write(text)
    os._exit(code)


def measure(row: Row, seconds: float) -> dict[str, Any]:
    """A row's figures: ours over each peer, and each engine's own."""
    times = in_ranks(row.num_ranks, lambda: paired(row, seconds))
    if "error" in times:
        return times
    ours = times["wall_s"]["ours"]
    figures: dict[str, Any] = {"num_rounds": len(ours)}
    for name in row.engines:
        used = in_ranks(row.num_ranks, lambda name=name: memory(row, name))
        figures[name] = {
            "step_s": round(statistics.median(times["wall_s"][name]), 4),
            "processor_s": round(statistics.median(times["processor_s"][name]), 4),
            **used,
        }
        if name != "ours":
            ratios = sorted(mine / theirs for mine, theirs in zip(ours, times["wall_s"][name], strict=True))
            figures[name]["ours_over_it"] = round(statistics.median(ratios), 3)
            figures[name]["from_to"] = [round(ratios[0], 3), round(ratios[-1], 3)]
            own, peer = figures["ours"]["processor_s"], figures[name]["processor_s"]
            figures[name]["processor_ours_over_it"] = round(own / peer, 3)
            if "mib" in used and "mib" in figures["ours"]:
                figures[name]["memory_ours_over_it"] = round(figures["ours"]["mib"] / used["mib"], 3)
    return figures


def summary(latest: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Ours over the peer by row: step, processor time, memory."""
    found: dict[str, Any] = {}
    for key, figures in latest.items():
        if "error" in figures:
            found[key] = figures["error"]
            continue
        peers = [name for name in figures if isinstance(figures[name], dict) and name != "ours"]
        found[key] = {
            name: [figures[name][each] for each in ("ours_over_it", "processor_ours_over_it")]
            + [figures[name].get("memory_ours_over_it")]
            for name in peers
        }
    return {"ours_over_peer": found, "order": "step, processor time, memory"}


def main() -> int:
    """Measures the rows and keeps them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name has this: 20M/fp32, plain, ...")
    parser.add_argument("--seconds", type=float, default=9.0, help="of a row's rounds, at least 4")
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = Results(
        "engine_speed",
        what="a step of the engine against torch's own parts at 20M and 100M parameters: time, processor, memory",
        measures=["benchmarks/engine_speed.py", "benchmarks/engine_peers.py", "src/emberward/engine"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for row in rows():
        if options.only in row.key:
            figures = measure(row, options.seconds)
            sys.stderr.write(f"{row.key} {json.dumps(figures)}\n")
            results.add(row.key, figures)
    results.summarise(summary(results.latest()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
