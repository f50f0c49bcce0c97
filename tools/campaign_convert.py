"""Conversions that are killed at random moments go on, and end as if nobody had killed them.

    .venv/bin/python tools/campaign_convert.py [--seed 1] [--kills 10]

Each conversion runs as a person's command. It is ended by SIGKILL at a random share of the time that it took when it
was left alone, started again, and so on until the kills are spent; then it may end. Its result is compared with the
one that was left alone, tensor by tensor, and file by file where the format holds no times.
"""

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measured import Results, add_options

from emberward import checkpoint
from emberward.checkpoint import Foreign, Shard, alone

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "emberward", "checkpoint"]
VERBS = {
    "reshape to 5 ranks": ["reshape", "--ranks", "5"],
    "import in bf16": ["import", "--ranks", "3", "--dtype", "BF16"],
    "deepspeed-universal": ["export", "--form", "deepspeed-universal"],
    "dcp": ["export", "--form", "dcp", "--ranks", "6"],
    "huggingface in shards": ["export", "--form", "huggingface", "--max-shard-size", "5MB"],
}
NUM_TENSORS, ROWS, COLUMNS = 24, 512, 1024


def make_source(folder: Path, seed: int) -> Path:
    """A save of 150 MB: weights and moments of 24 matrices, cut for 8 ranks."""
    generator = torch.Generator().manual_seed(seed)
    shards = [
        Shard(
            name=f"{kind}/blocks.{number}.weight",
            global_shape=(ROWS, COLUMNS),
            box=((0, ROWS), (0, COLUMNS)),
            tensor=torch.randn(ROWS, COLUMNS, generator=generator),
        )
        for number in range(NUM_TENSORS)
        for kind in ("model", "optim/exp_avg", "optim/exp_avg_sq")
    ]
    checkpoint.save(folder / "one", step=7, shards=shards, meta={"num_updates": 7}, rank=0, world_size=1, agree=alone)
    return checkpoint.reshape(folder / "one" / "step-00000007", folder / "source", num_ranks=8).written.path


def command_of(words: list[str], source: Path, target: Path) -> list[str]:
    """The command line; `target` is the result, or for a save the folder in which it is made."""
    return [*COMMAND, words[0], str(source), str(target), *words[1:], "--json"]


def digest_of(folder: Path) -> str:
    """One digest of every file's name and bytes below a folder."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def run_case(words: list[str], source: Path, place: Path, rng: random.Random, num_kills: int) -> dict[str, Any]:
    """How one conversion ended after its kills."""
    whole, broken = place / "whole" / "result", place / "broken" / "result"
    whole.parent.mkdir(parents=True)
    broken.parent.mkdir(parents=True)
    began_s = time.monotonic()
    subprocess.run(command_of(words, source, whole), check=True, capture_output=True)
    alone_s = time.monotonic() - began_s
    kills, kept = list[float](), 0
    while len(kills) < num_kills:
        child = subprocess.Popen(
            command_of(words, source, broken), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        share = rng.uniform(0.1, 1.0)
        try:
            child.wait(timeout=alone_s * share)
            shutil.rmtree(broken.parent)  # it was faster than the kill: once more from the start
            broken.parent.mkdir()
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait(60.0)
            kills.append(round(share, 3))
    if not _is_there(broken):
        done = subprocess.run(command_of(words, source, broken), check=True, capture_output=True, text=True)
        kept = json.loads(done.stdout)["num_kept_files"]
    difference = checkpoint.diff(whole, broken, reading=Foreign().reading())
    return {
        "kills_at_share_of_time": kills,
        "alone_s": round(alone_s, 2),
        "files_kept_at_the_end": kept,
        "num_equal": difference.num_equal,
        "num_different": len(difference.differences),
        "bytes_equal": digest_of(whole) == digest_of(broken),
        "left_behind": [path.name for path in broken.parent.rglob("*converting*")],
    }


def _is_there(target: Path) -> bool:
    """Whether the result stands under its name: of a save, in its folder."""
    if not target.exists():
        return False
    inner = [path for path in target.iterdir() if path.name.startswith("step-")]
    return bool(inner) or not any(path.name.endswith(".converting") for path in target.iterdir())


def main() -> None:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=10, help="in all, shared out among the conversions")
    add_options(parser)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        source = make_source(Path(scratch), asked.seed)
        for name, words in VERBS.items():
            place = Path(scratch) / name.replace(" ", "_")
            results[name] = run_case(words, source, place, rng, -(-asked.kills // len(VERBS)))
            print(name, results[name], flush=True)
            shutil.rmtree(place)
    kept = Results(
        "convert_kills",
        what="conversions that are killed at random moments and started again, against one that is left alone",
        measures=["src/emberward/checkpoint"],
        settings={"seed": asked.seed, "kills": asked.kills},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    for name, found in results.items():
        kept.add(name, found)
    bad = [name for name, found in results.items() if found["num_different"] or found["left_behind"]]
    kept.summarise({"not_as_if_left_alone": bad})
    sys.exit(f"not as if left alone: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
