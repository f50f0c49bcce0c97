"""A small recipe as a file, and the commands that train it under torchrun and srun."""

import subprocess
import sys
from pathlib import Path

from cluster.slurm import Cluster

STEPS, SAVE_INTERVAL = 24, 3
LIMIT_S = 200.0
NAME = "cluster"

_RECIPE = """
name: cluster
steps: {steps}
sample_tokens: 4
timeout_s: 150
schedule: 1f1b
model: {{num_layers: 2, hidden: 32, num_heads: 4, seq_len: 32}}
layout: {{dp: 1, tp: 1, pp: 2}}
batch: {{global_batch: 32, micro_batch: 2}}
optim: {{lr: 5e-3, warmup_samples: 0}}
evaluation: {{interval: 5, samples: 16}}
save: {{interval: {save_interval}, keep: 4}}
data: {{train: "{text}", held_out: 0.2, cache: "{cache}"}}
"""


def write_recipe(folder: Path, text: Path, steps: int = STEPS) -> Path:
    """A recipe for 2 ranks, as a file of its own; its runs may share the prepared data."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(
        _RECIPE.format(steps=steps, save_interval=SAVE_INTERVAL, text=text, cache=text.parent / "cache"),
        encoding="utf-8",
    )
    return path


def rank_command(recipe: Path, *more: str) -> list[str]:
    """The program of a rank; its runs lie beside the recipe."""
    return [sys.executable, "-m", "emberward.rank", "--runs", str(recipe.parent / "runs"), str(recipe), *more]


def torchrun(cluster: Cluster, recipe: Path) -> subprocess.Popen[bytes]:
    """Plain torchrun on 2 ranks, without SLURM."""
    _, *rank = rank_command(recipe)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "0",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--monitor-interval", "0.2", *rank,
    ]  # fmt: skip
    return cluster.launch(*command, log=recipe.parent / "torchrun.log", limit_s=LIMIT_S)


def srun(
    cluster: Cluster, recipe: Path, *options: str, nodes: int = 2, log: str = "srun.log"
) -> subprocess.Popen[bytes]:
    """srun on 2 ranks, over `nodes` nodes, as soon as there is place."""
    command = ["srun", f"--nodes={nodes}", "--ntasks=2", "--kill-on-bad-exit=1", *options, *rank_command(recipe)]
    return cluster.launch(*command, log=recipe.parent / log, limit_s=LIMIT_S)


def runs_of(recipe: Path) -> list[Path]:
    """The folders of the recipe's runs so far, oldest first."""
    return sorted(path.parent for path in (recipe.parent / "runs" / NAME).glob("*/config.resolved.yaml"))


def only_run(recipe: Path) -> Path:
    """The one run of a recipe; fails when there are none or more."""
    (run,) = runs_of(recipe)
    return run


def log_of(recipe: Path, name: str = "srun.log") -> str:
    """What a launch wrote, for assertions and for a failing test's message."""
    return (recipe.parent / name).read_text(errors="replace")
