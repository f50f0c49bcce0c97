"""Conversion of a DeepSpeed checkpoint to its universal form: Emberward beside DeepSpeed's own converter.

    .venv/bin/python benchmarks/reshape.py [--python ENV/bin/python] [--rounds 3] [--output docs/measured/reshape.json]

The same checkpoint (20.5 million parameters, 246 MB of weights and moments, made by real DeepSpeed on 2 ranks), the
same disk, as commands from start to end, in turn. Peak memory is the sum over the command's processes, looked at every
20 ms. Emberward's time includes fsync of every file, DeepSpeed's does not. Then the same with 1 GB of random numbers
("large"), where start-up weighs less, and a reshape of a save of that size from 8 to 4 ranks.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from campaign_deepspeed import PROGRAM, make_environment, run_program  # noqa: E402 (its folder is put on the path above)

SIZES = {"PROGRAM_WIDTH": "384", "PROGRAM_LAYERS": "8", "PROGRAM_VOCAB": "8192"}
LARGE = {"PROGRAM_WIDTH": "768", "PROGRAM_LAYERS": "10", "PROGRAM_VOCAB": "8192"}
LARGEST_BYTES = {"zero1": 8192 * 384 * 4, "zero3": 8192 * 384 * 4, "large": 8192 * 768 * 4}
EMBERWARD = [sys.executable, "-m", "emberward", "checkpoint"]
THEIRS = ["-m", "deepspeed.checkpoint.ds_to_universal"]


def measured(command: list[str]) -> dict[str, float]:
    """Seconds, processor seconds and peak memory of a command and all its processes."""
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    before, began = os.times(), time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    process, peak = psutil.Process(child.pid), 0
    while True:
        try:
            child.wait(timeout=0.02)
            break
        except subprocess.TimeoutExpired:
            peak = max(peak, memory_of(process))
    seconds, after = time.perf_counter() - began, os.times()
    assert child.stderr is not None
    said = child.stderr.read()
    child.stderr.close()
    assert child.returncode == 0, said[-2000:]
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": seconds, "cpu_s": cpu_s, "peak_bytes": peak}


def memory_of(process: psutil.Process) -> int:
    """Resident bytes of a process and those below it."""
    total = 0
    try:
        for each in [process, *process.children(recursive=True)]:
            total += each.memory_info().rss
    except psutil.Error:
        pass
    return total


def commands(python: Path, made: Path, out: Path, stage: str) -> dict[str, list[str]]:
    """The contestants: ours, and theirs with one worker and with the workers that it takes by default."""
    theirs = [str(python), *THEIRS, "--input_folder", str(made / "step3"), "--output_folder", str(out)]
    theirs += [] if stage == "3" else ["--inject_missing_state"]
    return {
        "emberward": [*EMBERWARD, "export", str(made), str(out), "--form", "deepspeed-universal"],
        "deepspeed, 1 worker": [*theirs, "--num_extract_workers", "1", "--num_merge_workers", "1"],
        "deepspeed, default workers": theirs,
    }


def compare(python: Path, place: Path, stage: str, rounds: int) -> dict[str, object]:
    """The contest over a checkpoint that real DeepSpeed made in training."""
    made = place / f"zero{stage}"
    trouble = run_program(python, 2, "make", stage, str(made), "1", sizes=SIZES)
    assert trouble is None, trouble
    return contest(python, made, stage, rounds)


def lay_out(python: Path, made: Path) -> Path:
    """The folder, with 1 GB of random numbers in it as ZeRO 1 lays them out."""
    if not made.exists():
        environment = {**os.environ, **LARGE, "DS_ACCELERATOR": "cpu"}
        subprocess.run([str(python), str(PROGRAM), "lay", str(made)], check=True, env=environment, capture_output=True)
    return made


def contest(python: Path, made: Path, stage: str, rounds: int) -> dict[str, object]:
    """Each contestant's medians over the rounds, and the ratios to ours within a round."""
    place = made.parent
    seen: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for name, command in commands(python, made, place / "out" / "step3_universal", stage).items():
            shutil.rmtree(place / "out", ignore_errors=True)
            (place / "out").mkdir()
            seen.setdefault(name, []).append(measured(command))
            print(made.name, name, seen[name][-1], flush=True)
    medians = {
        name: {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
        for name, runs in seen.items()
    }
    ratios = {
        name: {
            key: round(statistics.median(a[key] / b[key] for a, b in zip(runs, seen["emberward"], strict=True)), 2)
            for key in ("seconds", "cpu_s", "peak_bytes")
        }
        for name, runs in seen.items()
        if name != "emberward"
    }
    return {"medians": medians, "ratio_to_emberward": ratios}


def reshape(place: Path, python: Path) -> dict[str, float]:
    """A reshape of a save of ours (1 GB) from 8 ranks to 4."""
    made = lay_out(python, place / "large")
    source = [*EMBERWARD, "import", str(made), str(place / "eight"), "--ranks", "8"]
    subprocess.run(source, check=True, stdout=subprocess.DEVNULL)
    return measured([*EMBERWARD, "reshape", str(place / "eight"), str(place / "four"), "--ranks", "4"])


def main() -> None:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, help="of an environment that has DeepSpeed")
    parser.add_argument("--only", help="zero1, zero3, large or 'reshape 8 to 4 ranks'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "measured" / "reshape.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        python = asked.python or make_environment(place / "env")
        cases: dict[str, Callable[[], object]] = {
            "zero1": lambda: compare(python, place, "1", asked.rounds),
            "zero3": lambda: compare(python, place, "3", asked.rounds),
            "large": lambda: contest(python, lay_out(python, place / "large"), "1", asked.rounds),
            "reshape 8 to 4 ranks": lambda: reshape(place, python),
        }
        results = {name: case() for name, case in cases.items() if asked.only in (None, name)}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    body = {
        "commit": commit,
        "rounds": asked.rounds,
        "load_average": os.getloadavg(),
        "largest_tensor_bytes": LARGEST_BYTES,
        "peak_allowed_bytes": {name: 2 * largest + 300_000_000 for name, largest in LARGEST_BYTES.items()},
        "results": results,
    }
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
