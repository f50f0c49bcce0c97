"""Real runs of real ranks: prepares a run's folder and starts torchrun on it, as the launcher does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from emberward.data import open_tokenizer
from emberward.recipe import load_recipe, resolve
from emberward.report import RunFolder
from emberward.runs import Start, begin, prepare_data

SMALL = (
    "model.num_layers=2",
    "model.hidden=32",
    "model.seq_len=32",
    "batch.global_batch=8",
    "batch.micro_batch=2",
    "optim.warmup_samples=0",
    "sample_tokens=4",
    "timeout_s=60",
)


def write_text(folder: Path, num_files: int = 12) -> Path:
    """A folder of small text files, each different."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(num_files):
        lines = [f"line {line} of file {number} says {line * number % 97} times {line % 13}" for line in range(60)]
        (folder / f"text{number:02d}.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def make_run(path: Path, num_ranks: int, *overrides: str, text: Path) -> Path:
    """A run's folder that ranks can start on; `text` is its training data."""
    path.mkdir(parents=True)
    data = (f"data.train={text}", "data.held_out=0.2", f"data.cache={text.parent / 'cache'}")
    loaded = load_recipe("bloom_tiny", [*SMALL, *data, *overrides])
    tokenizer = open_tokenizer(loaded.recipe.data.tokenizer)
    resolved = resolve(loaded, num_ranks=num_ranks, tokenizer_size=tokenizer.size)
    begin(
        Start(folder=RunFolder(path=path), is_resume=False, why="a test's run"),
        resolved,
        prepare_data(resolved.recipe, progress=None).path,
    )
    return path


def start(path: Path, num_ranks: int) -> subprocess.Popen[bytes]:
    """torchrun with `num_ranks` ranks on the run's folder."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks), "--max-restarts", "0",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--monitor-interval", "0.2",
        "-m", "emberward.rank", "--folder", str(path),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "EMBERWARD_SUPERVISED": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def metrics(path: Path) -> list[dict[str, Any]]:
    """The steps of a run so far, whole lines only."""
    file = path / "metrics.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"]


def curve(path: Path) -> list[tuple[int, float, float, int]]:
    """What must not change when a run is interrupted: step, loss, gradient norm, samples; by their exact values."""
    return [(line["step"], line["loss"], line["grad_norm"], line["consumed_samples"]) for line in metrics(path)]


def logs(path: Path) -> str:
    """What the ranks wrote, for a failing test's message."""
    return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in sorted((path / "logs").glob("rank*.log")))
