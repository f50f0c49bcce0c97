"""Real runs of real ranks: prepares a run's folder and starts its ranks, as the launcher does."""

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ports import reserve_port
from warm import RANK, TORCH, WarmServer

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


def start(path: Path, num_ranks: int) -> "Ranks":
    """`num_ranks` ranks on the run's folder, each forked from a process that has torch loaded."""
    return Ranks([path] * num_ranks)


def start_torchrun(path: Path, num_ranks: int) -> subprocess.Popen[bytes]:
    """The same under the real launcher, which costs seconds of imports a process."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks), "--max-restarts", "0",
        "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--monitor-interval", "0.2",
        "-m", "emberward.rank", "--folder", str(path),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "EMBERWARD_SUPERVISED": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@functools.cache
def warm_server() -> WarmServer:
    """Where ranks are forked from."""
    server = WarmServer(*TORCH, *RANK, environment={**os.environ, "OMP_NUM_THREADS": "1"})
    atexit.register(server.close)
    return server


class Ranks:
    """Ranks that meet, one on each run's folder of `paths`, which is one folder but for a test of what differs.

    As under torchrun, when one fails the others are ended: by SIGTERM, and by SIGKILL later.
    """

    GRACE_S = 30.0

    def __init__(self, paths: list[Path]) -> None:
        common = {
            "WORLD_SIZE": str(len(paths)),
            "LOCAL_WORLD_SIZE": str(len(paths)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(reserve_port()),
            "EMBERWARD_SUPERVISED": "1",
        }
        with Path(os.devnull).open("wb") as null:
            self.ranks = [
                warm_server().start(
                    ["emberward.rank", "--folder", str(path)],
                    module="emberward.rank",
                    cwd=Path.cwd(),
                    stdout=null,
                    stderr=null,
                    env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                )
                for rank, path in enumerate(paths)
            ]

    def poll(self) -> int | None:
        """As torchrun's: None while a rank runs, 0 when all ended with 0, else 1."""
        codes = [rank.poll() for rank in self.ranks]
        return None if None in codes else int(any(codes))

    def wait(self, timeout: float) -> int:
        """The exit code. Raises subprocess.TimeoutExpired, with no rank left, after `timeout` seconds."""
        end, ended_at = time.monotonic() + timeout, None
        try:
            while (code := self.poll()) is None:
                now = time.monotonic()
                if any(rank.poll() for rank in self.ranks):
                    if ended_at is None:
                        ended_at = now
                        self._end(signal.SIGTERM)
                    elif now - ended_at > self.GRACE_S:
                        self._end(signal.SIGKILL)
                if now > end:
                    raise subprocess.TimeoutExpired("ranks", timeout)
                time.sleep(0.02)
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        return code

    def _end(self, number: int) -> None:
        for rank in self.ranks:
            rank.send_signal(number)


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
