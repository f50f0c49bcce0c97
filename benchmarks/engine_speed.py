"""Step time and memory of the engine against torch's own parts at 20M and 100M parameters, in paired rounds.

    python benchmarks/engine_speed.py [--only 20M/fp32/2/plain] [--minutes 15] [--fresh]

A row is size/type/ranks/comparison. The engines of a row run in the same processes and take turns step by step in an
order drawn anew each round, so that the machine's noise falls on all alike. A row has at least 3 rounds and goes on
while it has time: the rows share `--minutes` by their sizes, and what one leaves the next ones have. Each row is kept
when it is measured, so that a run that is cut keeps what it has; without `--fresh` the next one measures the others.
Memory is peak resident memory over an engine's building and first two steps less that before, of the rank that takes
most, in processes of its own: the first engine of a process also pays for buffers that later ones use. Processor time
is of a rank with all threads.
The row `first weights` draws those of rank 0 of 8 under ZeRO-3 for `roberta_10b`, whole, one tensor after the other.

The model is llama's (causal attention, gated feed-forward, untied head) of plain torch modules for the peers. They are
written as one would today: `DistributedDataParallel` (bf16 by autocast), FSDP2 layer by layer, DTensor tensor
parallelism with sequence parallelism, `PipelineStage` under `Schedule1F1B`; fused AdamW, clipping by
`clip_grad_norm_`. Beside ZeRO-3 runs our own ZeRO-2; `zero3_freed` is ZeRO-3 with room for two layers alone, as where a
model is larger than `layout.gathered_gb`. DeepSpeed's rows, with its defaults of a stage, are measured where it is
installed. With four ranks tensor and pipeline parallelism of two are beside FSDP2 (kept whole) over two. Rows of 500 Mb
are over capped links, for which they need root. megatron-core 0.16 is not among the peers: it refuses to train without
CUDA.
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
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from capped_links import CappedLinks
from engine_peers import PEERS, is_installed
from steps import batches_of

from emberward.draws import key_of, normal_box
from emberward.engine import Engine, build_world
from emberward.families import LlamaConfig, ModelConfig, model_of
from emberward.layout import Normal, chunk
from emberward.recipe import (
    BatchConfig,
    ComputeType,
    Device,
    LayoutConfig,
    OptimConfig,
    PrecisionConfig,
    Recipe,
    ZeroStage,
    ends_of,
    load_recipe,
    mesh_of,
    resolve,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

Step = Callable[[], object]
SIZES = {
    "20M": {"num_layers": 8, "hidden": 384, "num_heads": 6, "ffn_hidden": 1024, "vocab_size": 8192},
    "100M": {"num_layers": 11, "hidden": 768, "num_heads": 12, "ffn_hidden": 2048, "vocab_size": 16384},
}
OURS_ZERO2 = "ours_zero2"
COMPARISONS = {
    "plain": ({"zero": 0}, ["ddp"]),
    "zero2": ({"zero": 2}, ["fsdp2_kept"]),
    "zero3": ({"zero": 3}, ["fsdp2", OURS_ZERO2]),
    "zero3_freed": ({"zero": 3, "gathered_gb": 0.0}, ["fsdp2", OURS_ZERO2]),
    "tensor": ({"zero": 1, "tp": 2}, ["dtensor"]),
    "pipeline": ({"zero": 1, "pp": 2}, ["schedule1f1b"]),
    **{f"deepspeed_zero{stage}": ({"zero": stage}, [f"deepspeed_zero{stage}"]) for stage in (1, 2, 3)},
}
"""Our layout and the peers of each comparison."""
CAPPED_MBIT = 500
"""Of what a rank sends in the rows over capped links, each rank in a network namespace of its own."""
SEQ_LEN, MIN_ROUNDS, MAX_ROUNDS, WARM_UP = 128, 3, 20, 2
START_LIMIT_S, ROW_LIMIT_S = 60.0, 240.0
FIRST_WEIGHTS = "first weights/10B/rank 0 of 8"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    size: str
    compute: str
    num_ranks: int
    comparison: str
    link_mbit: int | None = None

    @property
    def key(self) -> str:
        """Its name in the results."""
        link = "" if self.link_mbit is None else f"/{self.link_mbit} Mb"
        return f"{self.size}/{self.compute}/{self.num_ranks}/{self.comparison}{link}"

    @property
    def engines(self) -> list[str]:
        """Ours first."""
        return ["ours", *COMPARISONS[self.comparison][1]]

    @property
    def weight(self) -> int:
        """Its share of the time, by parameters and ranks."""
        return {"20M": 1, "100M": 5}[self.size] * self.num_ranks * (1 if self.link_mbit is None else 4)

    def recipe(self) -> Recipe:
        """What ours runs; peers take sizes, layout and batch from it."""
        layout = dict(COMPARISONS[self.comparison][0])
        zero = ZeroStage(layout.pop("zero"))
        dp = self.num_ranks // (layout.get("tp", 1) * layout.get("pp", 1))
        accumulation = 4 if "pp" in layout else 1
        micro_batch = 2 if self.size == "20M" and accumulation == 1 else 1
        return Recipe(
            schedule="1f1b",
            device=Device.CPU,
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
    ] + [
        Row("20M", compute, 2, comparison, CAPPED_MBIT)
        for compute in ("fp32", "bf16")
        for comparison in ("plain", "zero2", "zero3", "zero3_freed", "deepspeed_zero2", "deepspeed_zero3")
    ]


# -- in a rank ---------------------------------------------------------------------------------------------------------


def step_of(name: str, row: Row) -> Step:
    """A step of the engine `name`. All ranks must call; blocks."""
    recipe = row.recipe()
    if name == OURS_ZERO2:
        recipe = replace(recipe, layout=replace(recipe.layout, zero=ZeroStage.GRADIENTS))
    batches = batches_of(recipe)
    if name in PEERS:
        return PEERS[name](recipe, batches)
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=120, ends=ends_of(recipe))
    engine = Engine(recipe, world)
    return lambda: engine.train_step(batches, lr=1e-3, step=0)


def paired(row: Row, until_s: float) -> dict[str, Any]:
    """Wall and processor seconds of each engine's steps by round; `until_s` by the monotonic clock."""
    steps = {}
    for name in row.engines:
        steps[name] = step_of(name, row)
        for _ in range(WARM_UP):
            steps[name]()
    wall: dict[str, list[float]] = {name: [] for name in steps}
    processor: dict[str, list[float]] = {name: [] for name in steps}
    order, go_on = random.Random(0), torch.ones(1)
    for number in range(MAX_ROUNDS):
        names = list(steps)
        order.shuffle(names)
        for name in names:
            dist.barrier()
            started_s, used_s = time.perf_counter(), time.process_time()
            steps[name]()
            used_s = time.process_time() - used_s
            dist.barrier()
            wall[name].append(time.perf_counter() - started_s)
            processor[name].append(used_s)
        gc.collect()
        if number + 1 >= MIN_ROUNDS:
            a_round_s = sum(each[-1] for each in wall.values())
            go_on.fill_(float(time.monotonic() + a_round_s < until_s))
            dist.broadcast(go_on, 0)
            if not go_on.item():
                break
    return {"wall_s": wall, "processor_s": processor}


def memory(name: str, row: Row) -> dict[str, Any]:
    """MiB that the engine adds to the process at its peak in its first steps, the most of all ranks."""
    dist.barrier()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: proc(5)
    before = resident_kib("VmRSS")
    step = step_of(name, row)
    for _ in range(WARM_UP):
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


def in_ranks(num_ranks: int, work: Callable[[], dict[str, Any]], *, link_mbit: int | None = None) -> dict[str, Any]:
    """What `work` gives on rank 0, called in forks of this process, which has everything imported. Bounded."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        links = None if link_mbit is None else stack.enter_context(CappedLinks(num_ranks, link_mbit))
        pids = [_fork(rank, num_ranks, work, Path(folder), links) for rank in range(num_ranks)]
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


def _fork(
    rank: int, num_ranks: int, work: Callable[[], dict[str, Any]], folder: Path, links: CappedLinks | None
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        torch.manual_seed(rank)
        if links is not None:
            links.enter(rank)
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


def measure(row: Row, until_s: float) -> dict[str, Any]:
    """A row's figures: ours over each peer, and each engine's own."""
    found = in_ranks(row.num_ranks, lambda: paired(row, until_s), link_mbit=row.link_mbit)
    if "error" in found:
        return found
    alone = {name: in_ranks(row.num_ranks, partial(memory, name, row)) for name in row.engines}
    errors = [each for each in alone.values() if "error" in each]
    if errors:
        return errors[0]
    wall, processor, mib = found["wall_s"], found["processor_s"], {name: each["mib"] for name, each in alone.items()}
    figures: dict[str, Any] = {"num_rounds": len(wall["ours"])}
    for name in row.engines:
        figures[name] = {
            "step_s": round(statistics.median(wall[name]), 4),
            "processor_s": round(statistics.median(processor[name]), 4),
            "mib": mib[name],
        }
        if name != "ours":
            ratios = sorted(mine / theirs for mine, theirs in zip(wall["ours"], wall[name], strict=True))
            used = [mine / theirs for mine, theirs in zip(processor["ours"], processor[name], strict=True)]
            figures[name]["ours_over_it"] = round(statistics.median(ratios), 3)
            figures[name]["from_to"] = [round(ratios[0], 3), round(ratios[-1], 3)]
            figures[name]["processor_ours_over_it"] = round(statistics.median(used), 3)
            figures[name]["memory_ours_over_it"] = round(mib["ours"] / mib[name], 3)
    return figures


def first_weights() -> dict[str, Any]:
    """Seconds in which rank 0 of 8 under ZeRO-3 draws its share of 10B parameters, and its elements."""
    recipe = resolve(load_recipe("roberta_10b"), num_ranks=128, tokenizer_size=50_265).recipe
    num_drawn, started_s, used_s = 0, time.perf_counter(), time.process_time()
    for block in model_of(recipe.model).blocks:
        for spec in block.tensors:
            if spec.tied_to is None and isinstance(spec.init, Normal):
                box = (chunk(spec.shape[0], 8, 0), *((0, length) for length in spec.shape[1:]))
                values = normal_box(key_of(recipe.seed, spec.stored_name), spec.shape, box, std=spec.init.std)
                num_drawn += values.size
    used_s = time.process_time() - used_s
    return {
        "num_drawn": num_drawn,
        "seconds": round(time.perf_counter() - started_s, 2),
        "processor_s": round(used_s, 2),
        "processor_ns_an_element": round(used_s / num_drawn * 1e9, 2),
    }


def summary(latest: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Ours over the peer by row: step, processor time, memory."""
    found: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for key, figures in latest.items():
        if key == FIRST_WEIGHTS:
            first = {FIRST_WEIGHTS: {name: figures[name] for name in ("num_drawn", "seconds", "processor_s")}}
            continue
        peers = [name for name, each in figures.items() if isinstance(each, dict) and name != "ours"]
        found[key] = figures.get("error") or {
            name: [figures[name][f"{what}ours_over_it"] for what in ("", "processor_", "memory_")] for name in peers
        }
    return {**first, "order": "step, processor time, memory", "ours_over_peer": found}


def table(latest: dict[str, dict[str, Any]]) -> str:
    """The rows for people, as Markdown."""
    lines = ["| row | peer | ours, s | peer, s | step, from to | processor | memory | rounds |", "|" + "---|" * 8]
    for key, figures in latest.items():
        for name, each in figures.items():
            if isinstance(each, dict) and name != "ours":
                low, high = each["from_to"]
                lines.append(
                    f"| {key} | {name} | {figures['ours']['step_s']:.2f} | {each['step_s']:.2f} "
                    f"| {each['ours_over_it']:.2f}, {low:.2f} to {high:.2f} | {each['processor_ours_over_it']:.2f} "
                    f"| {each['memory_ours_over_it']:.2f} | {figures['num_rounds']} |"
                )
        if "error" in figures:
            lines.append(f"| {key} | {figures['error']} | | | | | | |")
    return "\n".join(lines)


def main() -> int:
    """Measures the rows and keeps them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name has one of these: 20M/fp32 plain,zero3 ...")
    parser.add_argument("--minutes", type=float, default=15.0, help="for all rows together")
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    end_s = time.monotonic() + 60 * options.minutes
    results = Results(
        "engine_speed",
        what="a step of the engine against torch's own parts at 20M and 100M parameters: time, processor, memory",
        measures=[
            "benchmarks/engine_speed.py",
            "benchmarks/engine_peers.py",
            "benchmarks/capped_links.py",
            "src/emberward/engine",
        ],
        is_fresh=options.fresh,
        folder=options.into,
    )
    done = {key for key, figures in results.latest().items() if "error" not in figures}
    wanted = options.only.split(",")
    if FIRST_WEIGHTS not in done and any(word in FIRST_WEIGHTS for word in wanted):
        results.add(FIRST_WEIGHTS, first_weights())
    here = [row for row in rows() if all(is_installed(name) for name in row.engines)]
    left = [row for row in here if any(word in row.key for word in wanted) and row.key not in done]
    while left:
        now_s, weight = time.monotonic(), sum(row.weight for row in left)
        row = left.pop(0)
        figures = measure(row, now_s + (end_s - now_s) * row.weight / weight)
        sys.stderr.write(f"{row.key} {json.dumps(figures)}\n")
        results.add(row.key, figures)
    results.summarise(summary(results.latest()))
    sys.stdout.write(table(results.latest()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
