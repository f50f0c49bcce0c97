"""What a comparison of all copies costs against a training step, in turns in the same processes.

    python benchmarks/drift_cost.py [--steps 12]

Two layouts of the preset bloom_tiny on 4 ranks: all of dp replicated (ZeRO-0: each parameter and moment has copies, the
worst case) and dp 2 x tp 2 with ZeRO-1 (norms and biases alone have copies, the usual case).
"""

import argparse
import statistics
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from steps import batches_of, publish, start_ranks, timed

from emberward.data import open_tokenizer
from emberward.engine import Engine, build_world
from emberward.rank._drift import ReplicaWatch
from emberward.recipe import DriftPolicy, load_recipe, mesh_of, resolve

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import add_options

RANKS, WARM_UP = 4, 2
LAYOUTS = {
    "dp4 ZeRO-0": ("layout.dp=4", "layout.tp=1", "layout.pp=1", "layout.zero=0"),
    "dp2 x tp2 ZeRO-1": ("layout.dp=2", "layout.tp=2", "layout.pp=1", "layout.zero=1"),
}


def measure(name: str, overrides: tuple[str, ...], steps: int) -> dict[str, object]:
    """The figures of one layout; the same on every rank but for noise."""
    loaded = load_recipe("bloom_tiny", list(overrides))
    recipe = resolve(loaded, num_ranks=RANKS, tokenizer_size=open_tokenizer("byte").size).recipe
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=300)
    torch.manual_seed(1)
    engine = Engine(recipe, world)
    watch = ReplicaWatch(engine, policy=DriftPolicy.REPORT)
    batches = batches_of(recipe)
    times: dict[str, list[float]] = {"step": [], "check": []}
    for step in range(steps + WARM_UP):
        step_s = timed(lambda step=step: engine.train_step(batches, lr=1e-3, step=step))
        check_s = timed(lambda step=step: watch.check(step=step + 1, state={"step": step + 1}))
        if step >= WARM_UP:
            times["step"].append(step_s)
            times["check"].append(check_s)
    ratios = [check / step for check, step in zip(times["check"], times["step"], strict=True)]
    interval = recipe.health.drift_interval or 1
    return {
        "layout": name,
        "num_copies_of_rank_0": len(engine.replicas()),
        "bytes_digested_a_rank": watch.num_bytes,
        "bytes_gathered_a_rank": 4 * 8 * RANKS,
        "num_pairs": steps,
        "step_s_median": statistics.median(times["step"]),
        "check_s_median": statistics.median(times["check"]),
        "check_over_step_median": statistics.median(ratios),
        "share_of_time_at_the_default_interval": statistics.median(ratios) / interval,
    }


def main() -> None:
    """Starts the ranks, or is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    add_options(parser)
    options = parser.parse_args()
    start_ranks(RANKS)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layouts = [measure(name, overrides, options.steps) for name, overrides in LAYOUTS.items()]
    rank = dist.get_rank()
    dist.destroy_process_group()
    if rank == 0:
        publish(
            "drift_cost",
            {"layouts": layouts},
            what="what comparing the copies that ranks must hold alike costs a step, by layout",
            measures=["src/emberward/rank/_drift.py", "src/emberward/health", "src/emberward/engine"],
            options=options,
        )


if __name__ == "__main__":
    main()
