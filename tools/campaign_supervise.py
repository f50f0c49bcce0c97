"""Faults in every rank of a run that supervises itself: resumed without a hand, bitwise the straight run, nothing left.

    python tools/campaign_supervise.py --ranks 8 --seeds 3 --output docs/measured/supervise.json

Each case trains a small recipe with `emberward train --restarts 2`, breaks one rank at a step that the seed draws, and
compares the curve with that of a run that nobody broke. The faults inside a process come from a sitecustomize of its
own, which the recorder's chains. Full disks need root: a tmpfs of a few megabytes holds that run.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
STEPS, SAVE_EVERY = 24, 4
LIMIT_S = 400.0
POLL_S = 0.02
FAULTS = ("kill", "stop", "segfault", "memory_error", "thread_exit", "disk_full")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "segfault": signal.SIGSEGV}
DISK_MB = 24
INSIDE = """
import ctypes, os, threading, time
def _break():
    path = os.environ["CAMPAIGN_FAULT"] + "." + os.environ["RANK"]
    while not os.path.exists(path):
        time.sleep(0.005)
    with open(path) as file:
        fault = file.read()
    os.unlink(path)
    if fault == "thread_exit":
        os._exit(7)
    main = ctypes.c_ulong(threading.main_thread().ident)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(MemoryError))
if "RANK" in os.environ:
    threading.Thread(target=_break, daemon=True).start()
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run to be broken."""

    fault: str
    rank: int
    seed: int


def recipe_words(place: Path, name: str, ranks: int) -> list[str]:
    pp = 2 if ranks % 2 == 0 else 1
    return [
        "bloom_tiny", f"name={name}", f"steps={STEPS}", f"save.interval={SAVE_EVERY}", "save.keep=2",
        "model.num_layers=2", "model.hidden=32", "model.seq_len=32", "batch.global_batch=16", "batch.micro_batch=1",
        "optim.warmup_samples=0", "sample_tokens=2", "timeout_s=120", "evaluation.interval=1000",
        f"layout.dp={ranks // pp}", "layout.tp=1", f"layout.pp={pp}", f"data.train={place / 'text'}",
        f"data.cache={place / 'cache'}", "data.held_out=0.2",
    ]  # fmt: skip


def start(place: Path, name: str, ranks: int, runs: Path, **environment: str) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "emberward", "train", *recipe_words(place, name, ranks), "--no-check"]
    words += ["--restarts", "2", "--act-after", "3", "--runs", str(runs), "--json"]
    with (place / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            words, cwd=place, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
        )


def steps_of(folder: Path) -> list[dict[str, Any]]:
    file = folder / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def curve(folder: Path) -> list[tuple[Any, ...]]:
    return [(each["step"], each["loss"], each["grad_norm"], each["consumed_samples"]) for each in steps_of(folder)]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def using(text: str) -> list[str]:
    """Command lines of living processes that name `text`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(text in word for word in words):
            found.append(" ".join(words)[:200])
    return found


def wait(condition: Any, process: "subprocess.Popen[bytes]") -> bool:
    """Whether the condition came true before the process ended or the time was up."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        if process.poll() is not None or time.monotonic() > end_s:
            return False
        time.sleep(POLL_S)
    return True


def only_run(runs: Path, name: str) -> Path | None:
    return next(iter((runs / name).glob("2*")), None)


def inject(case: Case, folder: Path, flag: Path) -> Path | None:
    """Breaks the rank now; returns a file that has to be removed for the disk to be free again."""
    if case.fault in SIGNALS:
        said = json.loads((folder / "ranks" / f"rank{case.rank:05d}.json").read_text())
        os.kill(said["pid"], SIGNALS[case.fault])
    elif case.fault == "disk_full":
        filler = folder.parents[1] / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(65536))
                file.flush()
        return filler
    else:
        path = flag.with_name(f"{flag.name}.{case.rank}")
        aside = path.with_suffix(".tmp")
        aside.write_text(case.fault)
        aside.replace(path)
    return None


def run_case(case: Case, place: Path, ranks: int, straight: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What happened to the run, as one row."""
    name = f"{case.fault}-{case.rank}-{case.seed}"
    runs, flag = place / "runs", place / f"{name}.fault"
    if case.fault == "disk_full":
        runs = place / f"{name}.disk"
        runs.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(runs)], check=True)
    try:
        at_step = random.Random(f"{case.seed}-{case.fault}-{case.rank}").randrange(
            SAVE_EVERY + 1, STEPS - SAVE_EVERY - 2
        )
        path = os.pathsep.join([str(place / "inside"), os.environ.get("PYTHONPATH", "")])
        process = start(place, name, ranks, runs, PYTHONPATH=path, CAMPAIGN_FAULT=str(flag))

        def here() -> int:
            folder = only_run(runs, name)
            return 0 if folder is None else len(steps_of(folder))

        if not wait(lambda: here() >= at_step, process):
            process.kill()
            return {"case": name, "resumed": False, "why": "it did not come to the step of the fault"}
        folder = only_run(runs, name)
        assert folder is not None
        began_s = time.monotonic()
        filler = inject(case, folder, flag)
        ended = wait(lambda: any(each["event"] == "end" for each in lines_of(folder / "attempts.jsonl"))
                     or (filler is not None and list((folder / "failures").glob("*.json"))), process)  # fmt: skip
        noticed_s = time.monotonic() - began_s
        if filler is not None:
            filler.unlink()
        before = max((each["step"] for each in steps_of(folder)), default=0)
        attempts = folder / "attempts.jsonl"
        wait(lambda: sum(each["event"] == "start" for each in lines_of(attempts)) > 1, process)
        wait(lambda: (found := steps_of(folder)) and found[-1]["step"] > min(before, at_step), process)
        resumed_s = time.monotonic() - began_s
        code = process.wait(LIMIT_S)
        ends = [each for each in lines_of(attempts) if each["event"] == "end"]
        return {
            "case": name,
            "at_step": at_step,
            "exit_code": code,
            "resumed": ended and code == 0,
            "is_bitwise": curve(folder) == straight,
            "code": ends[0].get("code"),
            "cause": ends[0].get("cause"),
            "noticed_s": round(noticed_s, 2),
            "next_step_after_s": round(resumed_s, 2),
            "attempts": len(ends),
            "left": using(str(folder)),
        }
    finally:
        if case.fault == "disk_full":
            subprocess.run(["umount", "-l", str(runs)], check=False)


def prepare(place: Path) -> None:
    (place / "text").mkdir(parents=True)
    for number in range(12):
        lines = [f"line {line} of file {number} says {line * number % 97} times {line % 13}" for line in range(60)]
        (place / "text" / f"text{number:02d}.txt").write_text("\n".join(lines))
    (place / "inside").mkdir()
    (place / "inside" / "sitecustomize.py").write_text(INSIDE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only-ranks", type=int, nargs="*", help="which ranks to break; else each in turn")
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=FAULTS)
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="no new case after so many seconds")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    began_s = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="supervise-"))
    rows: list[dict[str, Any]] = []
    try:
        prepare(place)
        assert start(place, "straight", options.ranks, place / "runs").wait(LIMIT_S) == 0, "the straight run"
        folder = only_run(place / "runs", "straight")
        assert folder is not None
        straight = curve(folder)
        victims = options.only_ranks if options.only_ranks is not None else range(options.ranks)
        cases = [
            Case(fault=fault, rank=rank, seed=seed)
            for seed in range(options.seeds)
            for rank in victims
            for fault in options.faults
        ]
        for case in cases:
            if time.monotonic() - began_s > options.limit_s:
                break
            rows.append(run_case(case, place, options.ranks, straight))
            print(json.dumps(rows[-1]), flush=True)
        write(options, rows, num_planned=len(cases))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0 if all(row["resumed"] and row["is_bitwise"] and not row["left"] for row in rows) else 1


def write(options: argparse.Namespace, rows: list[dict[str, Any]], *, num_planned: int) -> None:
    """Writes the figures, with what they were measured on."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    value = {
        "commit": commit.stdout.strip() or None,
        "ranks": options.ranks,
        "seeds": options.seeds,
        "cores": os.cpu_count(),
        "load_at_end": os.getloadavg()[0],
        "num_planned": num_planned,
        "num_run": len(rows),
        "num_resumed": sum(row["resumed"] for row in rows),
        "num_bitwise": sum(bool(row.get("is_bitwise")) for row in rows),
        "num_with_processes_left": sum(bool(row.get("left")) for row in rows),
        "rows": rows,
    }
    if options.output is not None:
        options.output.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value[key] for key in value if key != "rows"}))


if __name__ == "__main__":
    raise SystemExit(main())
