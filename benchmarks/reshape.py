"""Conversion of a DeepSpeed checkpoint to its universal form: Emberward beside DeepSpeed's own converter.

    .venv/bin/python benchmarks/reshape.py [--python ENV/bin/python] [--rounds 4]

The same checkpoint (20.5 million parameters, 246 MB of weights and moments, made by real DeepSpeed on 2 ranks), the
same disk, as commands from start to end. A round runs each once, every other round backwards; a ratio is taken within a
round. Peak memory is the sum over the command's processes, looked at every 20 ms. Emberward's time includes fsync of
every file, DeepSpeed's does not. Then the same of ZeRO 3, and of 1 GB of random numbers ("large"), where start-up
weighs less, and a reshape of a save of that size from 8 to 4 ranks. No round begins after `--budget-s`; the file says
how many there were.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from campaign_deepspeed import PROGRAM, make_environment, run_program  # noqa: E402 (its folder is put on the path above)
from measured import Results, add_options  # noqa: E402

SIZES = {"PROGRAM_WIDTH": "384", "PROGRAM_LAYERS": "8", "PROGRAM_VOCAB": "8192"}
LARGE = {"PROGRAM_WIDTH": "768", "PROGRAM_LAYERS": "10", "PROGRAM_VOCAB": "8192"}
CONTEST_ROUNDS = {"zero1": 1.0, "zero3": 0.5, "large": 0.5}
"""Rounds of a contest as a share of those asked for."""
AIM_RATIO = 5.0
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


def make_trained(python: Path, place: Path, stage: str) -> Path:
    """A checkpoint that real DeepSpeed made in training."""
    made = place / f"zero{stage}"
    trouble = run_program(python, 2, "make", stage, str(made), "1", sizes=SIZES)
    assert trouble is None, trouble
    return made


def lay_out(python: Path, made: Path) -> Path:
    """The folder, with 1 GB of random numbers in it as ZeRO 1 lays them out."""
    if not made.exists():
        environment = {**os.environ, **LARGE, "DS_ACCELERATOR": "cpu"}
        subprocess.run([str(python), str(PROGRAM), "lay", str(made)], check=True, env=environment, capture_output=True)
    return made


def contest(python: Path, made: Path, stage: str, rounds: int, has_time: Callable[[], bool]) -> dict[str, object]:
    """Each contestant's medians over the rounds, and the ratios to ours within a round."""
    out = made.parent / "out"
    seen: dict[str, list[dict[str, float]]] = {}
    for number in range(max(1, rounds)):
        if number > 0 and not has_time():
            break
        entries = list(commands(python, made, out / "step3_universal", stage).items())
        for name, command in entries if number % 2 == 0 else reversed(entries):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            seen.setdefault(name, []).append(measured(command))
            print(made.name, name, seen[name][-1], flush=True)
    ours = seen["emberward"]
    return {
        "rounds": len(ours),
        "medians": {name: medians_of(runs) for name, runs in seen.items()},
        "ratio_to_emberward": {name: ratios_of(runs, ours) for name, runs in seen.items() if name != "emberward"},
        "runs": seen,
    }


def medians_of(runs: list[dict[str, float]]) -> dict[str, float]:
    """The median of each number."""
    return {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}


def ratios_of(theirs: list[dict[str, float]], ours: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """How often ours goes into theirs, round by round: the median and the lowest."""
    found = {}
    for key in ours[0]:
        ratios = [a[key] / b[key] for a, b in zip(theirs, ours, strict=True)]
        found[key] = {"median": round(statistics.median(ratios), 2), "lowest": round(min(ratios), 2)}
    return found


def reshape(place: Path, python: Path) -> dict[str, object]:
    """A reshape of a save of ours (1 GB) from 8 ranks to 4."""
    made = lay_out(python, place / "large")
    source = [*EMBERWARD, "import", str(made), str(place / "eight"), "--ranks", "8"]
    subprocess.run(source, check=True, stdout=subprocess.DEVNULL)
    runs = []
    for number in range(2):
        target = str(place / f"four{number}")
        runs.append(measured([*EMBERWARD, "reshape", str(place / "eight"), target, "--ranks", "4"]))
        shutil.rmtree(target)
    return {"rounds": len(runs), "medians": medians_of(runs), "runs": runs}


def verdict(results: Mapping[str, Any]) -> dict[str, object]:
    """Whether the aims are met: 5 times by wall at each size, and the memory."""
    said: dict[str, object] = {}
    for name in ("zero1", "zero3", "large"):
        if name in results:
            ratios = results[name]["ratio_to_emberward"].values()
            said[f"{name}: lowest median ratio by wall"] = min(ratio["seconds"]["median"] for ratio in ratios)
            said[f"{name}: lowest ratio by wall"] = min(ratio["seconds"]["lowest"] for ratio in ratios)
            peak = max(run["peak_bytes"] for run in results[name]["runs"]["emberward"])
            said[f"{name}: memory within 2 x largest + 300 MB"] = peak <= 2 * LARGEST_BYTES[name] + 300_000_000
    said["aim by wall"] = AIM_RATIO
    return said


def main() -> None:
    """The console program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", type=Path, help="of an environment that has DeepSpeed")
    parser.add_argument("--only", help="zero1, zero3, large or reshape")
    parser.add_argument("--rounds", type=int, default=4, help="of zero1; the others have half as many")
    parser.add_argument("--budget-s", type=float, default=280.0)
    add_options(parser)
    asked = parser.parse_args()
    began_s, load_before = time.monotonic(), os.getloadavg()

    def has_time() -> bool:
        return time.monotonic() - began_s < asked.budget_s

    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        python = asked.python or make_environment(place / "env")
        began_s = time.monotonic()
        sources: dict[str, tuple[str, Callable[[], Path]]] = {
            "zero1": ("1", lambda: make_trained(python, place, "1")),
            "large": ("1", lambda: lay_out(python, place / "large")),
            "zero3": ("3", lambda: make_trained(python, place, "3")),
        }
        results: dict[str, object] = {}
        for name, (stage, make) in sources.items():
            if asked.only in (None, name) and (not results or has_time()):
                rounds = round(asked.rounds * CONTEST_ROUNDS[name])
                results[name] = contest(python, make(), stage, rounds, has_time)
        if asked.only in (None, "reshape") and (not results or has_time()):
            results["reshape 8 to 4 ranks"] = reshape(place, python)
    kept = Results(
        "reshape",
        what="conversion of the same checkpoint by DeepSpeed's converter and by ours, round by round in changing order",
        measures=["src/emberward/checkpoint"],
        settings={"rounds": asked.rounds},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    load = {"before": load_before, "after": os.getloadavg()}
    for name, found in results.items():
        kept.add(name, {"result": found, "loads": load})
    seconds = round(time.monotonic() - began_s, 1)
    kept.summarise({"verdict": verdict(results), "largest_tensor_bytes": LARGEST_BYTES, "seconds": seconds})


if __name__ == "__main__":
    main()
