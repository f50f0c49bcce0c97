"""A thousand clean steps without an alarm, and planted differences: each found at the next check, by tensor and rank.

    python tools/campaign_drift.py [--steps 1000] [--faults 100]

Writes docs/measured/drift.json. Exit code 1 when a clean step alarms or a planted difference is missed or misnamed.
"""

import argparse
import os
import random
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from measured import Results, add_options

from emberward.engine import Engine, MicroBatch, build_world
from emberward.rank._drift import ReplicaWatch
from emberward.recipe import DriftPolicy, Recipe, load_recipe, mesh_of, resolve

RANKS = 4
SMALL = (
    "model.num_layers=2", "model.hidden=32", "model.seq_len=16", "batch.global_batch=8", "batch.micro_batch=2",
    "layout.dp=2", "layout.tp=2", "layout.pp=1", "layout.zero=0",
)  # fmt: skip


def batches_of(recipe: Recipe, *, step: int, dp_rank: int) -> list[MicroBatch]:
    """This dp rank's micro-batches of a step: random tokens, the same for the ranks of one tp group."""
    generator = torch.Generator().manual_seed(step * 1000 + dp_rank)
    size, length = recipe.batch.micro_batch or 1, recipe.model.seq_len
    out = []
    for _ in range(recipe.batch.accumulation or 1):
        tokens = torch.randint(0, 256, (size, length + 1), generator=generator)
        out.append(
            MicroBatch(inputs=tokens[:, :-1].clone(), labels=tokens[:, 1:].clone(), weights=torch.ones(size, length))
        )
    return out


def plant(engine: Engine, rng: random.Random) -> tuple[str, int]:
    """Flips one bit of one copy on one rank, drawn alike on all ranks; its tensor's name and the rank."""
    replicas = engine.replicas()
    rank = rng.randrange(RANKS)
    number, where, bit = rng.randrange(len(replicas)), rng.random(), rng.randrange(31)
    chosen = replicas[number].shard
    if engine.world.rank == rank:
        words = chosen.tensor.reshape(-1).view(torch.int32)
        words[int(where * len(words))] ^= 1 << bit
    return chosen.name, rank


def campaign(num_steps: int, num_faults: int) -> dict[str, Any]:
    """The figures, the same on every rank. All ranks must call."""
    recipe = resolve(load_recipe("bloom_tiny", list(SMALL)), num_ranks=RANKS, tokenizer_size=257).recipe
    recipe = replace(recipe, optim=replace(recipe.optim, lr=1e-3, warmup_samples=0))
    world = build_world(mesh_of(recipe.layout), device=torch.device("cpu"), timeout_s=300)
    torch.manual_seed(1)
    engine = Engine(recipe, world)
    watch = ReplicaWatch(engine, policy=DriftPolicy.REPORT)
    alarms = 0
    for step in range(1, num_steps + 1):
        engine.train_step(batches_of(recipe, step=step, dp_rank=world.dp_rank), lr=1e-3, step=step - 1)
        alarms += len(watch.check(step=step, state={"step": step}))
    found = named = repaired = 0
    mending = ReplicaWatch(engine, policy=DriftPolicy.REPAIR)
    for seed in range(num_faults):
        name, rank = plant(engine, random.Random(seed))
        findings = mending.check(step=num_steps + seed, state={})
        found += bool(findings)
        named += any(name in line for each in findings for line in each.evidence) and bool(
            findings and (findings[0].culprit_ranks in ((rank,),) or rank in (_holders_named(findings[0].evidence)))
        )
        repaired += not mending.check(step=num_steps + seed, state={})
    return {
        "layout": "dp2 x tp2, ZeRO-0, 4 ranks",
        "num_clean_steps": num_steps,
        "num_checks": num_steps,
        "num_false_alarms": alarms,
        "num_bit_flips": num_faults,
        "num_found_at_the_next_check": found,
        "num_with_tensor_and_rank": named,
        "num_repaired": repaired,
        "seeds": [0, num_faults - 1],
    }


def _holders_named(evidence: tuple[str, ...]) -> set[int]:
    """Every rank that the evidence names: of two copies both are."""
    words = " ".join(line for line in evidence if "rank" in line).replace(",", " ").split()
    return {int(word) for word in words if word.isdigit()}


def main() -> int:
    """Starts the ranks, or is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--faults", type=int, default=100)
    add_options(parser)
    options = parser.parse_args()
    if "RANK" not in os.environ:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
        return subprocess.call([*command, *rendezvous, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"})
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo")
    began = time.monotonic()
    figures = campaign(options.steps, options.faults)
    rank = dist.get_rank()
    dist.destroy_process_group()
    is_right = not figures["num_false_alarms"] and all(
        figures[key] == figures["num_bit_flips"]
        for key in ("num_found_at_the_next_check", "num_with_tensor_and_rank", "num_repaired")
    )
    if rank == 0:
        results = Results(
            "drift",
            what="clean steps with a check after each, and flipped bits: found, named, repaired",
            measures=["src/emberward/rank/_drift.py", "src/emberward/health", "src/emberward/engine"],
            settings={"steps": options.steps, "faults": options.faults},
            is_fresh=options.fresh,
            folder=options.into,
        )
        results.add("all", {**figures, "seconds": round(time.monotonic() - began, 1)})
        results.summarise(figures)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
