"""Faults in every rank of a run that supervises itself: resumed without a hand, bitwise the straight run, nothing left.

    python tools/campaign_supervise.py --ranks 8 --seeds 3

A chain is one `emberward train --restarts N` of a small recipe whose attempts are broken one after the other, each in
another way or in another rank, at a step that the seed draws, once the attempt has saved something new. A case costs
one restart so, and is judged alone: what the attempt's end says, how long until its end and until the next attempt's
first step, which of the attempt's processes live on, and whether the curve up to its fault is that of a run that nobody
broke; what comes after the fault is the next case's, and the whole curve the chain's. Cases of full disks have a chain
of their own, on a tmpfs that only root may make. A chain that is given up is begun again by hand for the cases that are
left, and its case counts as not resumed. The faults inside a process come from a sitecustomize of its own, which the
recorder's chains.

Every case is kept when it ends, however it ended; a case that the round holds is not run again.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from measured import Results, add_options

ROOT = Path(__file__).resolve().parents[1]
SAVE_EVERY = 3
STEPS_A_CASE = 7
"""More than a case can gain: a new save, and up to MOST_STEPS steps."""
MOST_STEPS = 4
LIMIT_S = 600.0
DISK_LIMIT_S = 90.0
STOP_LIMIT_S = 60.0
POLL_S = 0.05
FAULTS = ("kill", "stop", "segfault", "memory_error", "thread_exit", "disk_full")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "segfault": signal.SIGSEGV}
DISK_MB = 384
INSIDE = """
import ctypes, os, threading, time
def _break():
    path = os.environ["CAMPAIGN_FAULT"] + "." + os.environ["RANK"]
    while not os.path.exists(path):
        time.sleep(0.02)
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
    """One attempt to be broken."""

    fault: str
    rank: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.fault}-{self.rank}-{self.seed}"


@dataclass(kw_only=True)
class Chain:
    """A run that is broken again and again: its folder, its program, and how often it was begun by hand."""

    place: Path
    ranks: int
    steps: int
    name: str
    runs: Path
    process: "subprocess.Popen[bytes] | None" = None
    num_starts: int = 0
    events: list[str] = field(default_factory=list)

    @property
    def flag(self) -> Path:
        return self.place / f"{self.name}.fault"

    def go(self) -> None:
        """Starts the program when it does not run."""
        if self.process is None or self.process.poll() is not None:
            path = os.pathsep.join([str(self.place / "inside"), os.environ.get("PYTHONPATH", "")])
            self.process = start(self, PYTHONPATH=path, CAMPAIGN_FAULT=str(self.flag))
            self.num_starts += 1

    def stop(self) -> None:
        """Ends what still runs of it, in order and then by pid."""
        if self.process is None or self.process.poll() is not None:
            return
        below = tree(self.process)
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_LIMIT_S)
        self.process.kill()
        for pid, created in below:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.create_time() == created:
                    process.kill()
        self.process.wait(60.0)

    @property
    def folder(self) -> Path | None:
        return next(iter((self.runs / self.name).glob("2*")), None)

    def metrics(self) -> list[dict[str, Any]]:
        return [] if self.folder is None else lines_of(self.folder / "metrics.jsonl")

    def last_step(self) -> int:
        found = self.metrics()
        return int(found[-1]["step"]) if found else 0

    def saved_step(self) -> int:
        if self.folder is None:
            return 0
        found = (path.name.removeprefix("step-") for path in (self.folder / "checkpoints").glob("step-*"))
        return max((int(text) for text in found if text.isdecimal()), default=0)

    def diary(self, event: str) -> list[dict[str, Any]]:
        lines = [] if self.folder is None else lines_of(self.folder / "attempts.jsonl")
        return [line for line in lines if line.get("event") == event]

    def wait(self, condition: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
        """Whether the condition came true before the program ended or the time was up."""
        assert self.process is not None
        end_s = time.monotonic() + limit_s
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end_s:
                return condition()
            time.sleep(POLL_S)
        return True


def start(chain: Chain, **environment: str) -> "subprocess.Popen[bytes]":
    pp, place = (2 if chain.ranks % 2 == 0 else 1), chain.place
    recipe = [
        "bloom_tiny", f"name={chain.name}", f"steps={chain.steps}", f"save.interval={SAVE_EVERY}", "save.keep=2",
        "model.num_layers=2", "model.hidden=32", "model.seq_len=32", "batch.global_batch=16", "batch.micro_batch=1",
        "optim.warmup_samples=0", "sample_tokens=2", "timeout_s=300", "evaluation.interval=1000000",
        f"layout.dp={chain.ranks // pp}", "layout.tp=1", f"layout.pp={pp}", f"data.train={place / 'text'}",
        f"data.cache={place / 'cache'}", "data.held_out=0.2",
    ]  # fmt: skip
    words = [sys.executable, "-m", "emberward", "train", *recipe, "--no-check", "--restarts", "1000"]
    words += ["--act-after", "3", "--runs", str(chain.runs), "--json"]
    with (place / f"{chain.name}.log").open("ab") as log:
        return subprocess.Popen(
            words, cwd=place, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}
        )


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines; [] when there is none."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]


def curve(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["step"], each["loss"], each["grad_norm"], each["consumed_samples"]) for each in lines]


def tree(process: "subprocess.Popen[bytes]") -> set[tuple[int, float]]:
    """(pid, time of its creation) of every process below the program."""
    found = set()
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.add((child.pid, child.create_time()))
    return found


def living(processes: set[tuple[int, float]]) -> list[str]:
    """Command lines of those that still live."""
    found = []
    for pid, created in sorted(processes):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.create_time() == created and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline())[:160])
    return found


def rank_pid(chain: Chain, rank: int) -> int | None:
    """The process of a rank of the attempt that runs; None when it has not said so yet."""
    assert chain.folder is not None and chain.process is not None
    try:
        pid = int(json.loads((chain.folder / "ranks" / f"rank{rank:05d}.json").read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None
    return pid if any(pid == each for each, _ in tree(chain.process)) else None


def inject(case: Case, chain: Chain, pid: int) -> Path | None:
    """Breaks the rank now; returns a file that has to be removed for the disk to be free again."""
    if case.fault in SIGNALS:
        os.kill(pid, SIGNALS[case.fault])
    elif case.fault == "disk_full":
        filler = chain.runs / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(512))
        return filler
    else:
        path = chain.flag.with_name(f"{chain.flag.name}.{case.rank}")
        temporary = path.with_suffix(".tmp")
        temporary.write_text(case.fault)
        temporary.replace(path)
    return None


def run_case(case: Case, chain: Chain, straight: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What became of the attempt that was broken, as one row. The chain goes on with the next attempt."""
    more = random.Random(f"{case.seed}-{case.fault}-{case.rank}").randrange(1, MOST_STEPS + 1)
    chain.go()
    assert chain.process is not None
    ends = chain.diary("end")
    begins = (ends[-1]["saved_step"] or 0) if ends else 0
    at_step = begins + SAVE_EVERY - begins % SAVE_EVERY + more

    def is_there() -> bool:
        return (
            chain.last_step() >= at_step
            and chain.saved_step() > begins
            and len(chain.diary("start")) == len(chain.diary("end")) + 1
            and rank_pid(chain, case.rank) is not None
        )

    row: dict[str, Any] = {"case": case.name, "from_step": begins}
    if not chain.wait(is_there):
        return {**row, "resumed": False, "why": "it did not come to the step of the fault"}
    num_ends, pid = len(chain.diary("end")), rank_pid(chain, case.rank)
    processes = tree(chain.process)
    if pid is None:
        return {**row, "resumed": False, "why": "it ended before the fault"}
    row["at_step"] = chain.last_step()
    # Read once: the run goes on meanwhile.
    made = curve(chain.metrics())
    row["is_bitwise"] = bool(made) and made == straight[: len(made)]
    began_s = time.monotonic()
    filler = inject(case, chain, pid)

    def has_ended() -> bool:
        return len(chain.diary("end")) > num_ends

    if filler is not None:
        # With no room the attempt's end cannot be written: the ranks' own end says it.
        chain.wait(lambda: rank_pid(chain, case.rank) is None or has_ended(), DISK_LIMIT_S)
        row["ranks_ended_s"] = round(time.monotonic() - began_s, 2)
        filler.unlink()
    ended = chain.wait(has_ended)
    row["noticed_s"] = round(time.monotonic() - began_s, 2)
    if not ended:
        return {**row, "resumed": False, "why": "the attempt did not end"}
    end = chain.diary("end")[-1]
    saved = end["saved_step"] or 0
    # Steps after the save are made again: the first of them is the next attempt's first.
    resumed = chain.wait(lambda: len(chain.diary("start")) > num_ends + 1 and is_new_step(chain, end, saved))
    row["next_step_after_s"] = round(time.monotonic() - began_s, 2)
    left = living(processes)
    return {
        **row,
        "resumed": resumed,
        "why": "" if resumed else end["why"],
        "code": end["code"],
        "cause": end["cause"],
        "saved_step": saved,
        "lost_steps": row["at_step"] - saved,
        "left": left,
    }


def is_new_step(chain: Chain, end: dict[str, Any], saved: int) -> bool:
    """Whether the attempt after `end` has made its first step: metrics after the save are cut before it begins."""
    assert chain.folder is not None
    progress = chain.folder / "progress.json"
    try:
        said = json.loads(progress.read_text())
    except (OSError, ValueError):
        return False
    starts = chain.diary("start")
    return bool(said.get("step", 0) > saved and starts[-1]["attempt"] > end["attempt"])


def finish(chain: Chain, straight: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Lets the run come to its end, and says how it ended."""
    chain.go()
    assert chain.process is not None
    began_s = time.monotonic()
    chain.wait(lambda: False)
    code = chain.process.poll()
    end = {
        "chain": chain.name,
        "exit_code": code,
        "attempts": len(chain.diary("end")),
        "starts_by_hand": chain.num_starts,
        "is_bitwise": curve(chain.metrics()) == straight,
        "seconds_to_the_end": round(time.monotonic() - began_s, 1),
        "left": using(str(chain.folder)),
    }
    return end


def using(text: str) -> list[str]:
    """Command lines of living processes that name `text`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(text in word for word in words):
            found.append(" ".join(words)[:200])
    return found


@contextlib.contextmanager
def runs_of(place: Path, name: str, *, is_small: bool) -> Any:
    """Where a chain's run lies: on a small disk of its own for full disks."""
    runs = place / f"{name}.runs"
    runs.mkdir()
    if not is_small:
        yield runs
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(runs)], check=True)
    try:
        yield runs
    finally:
        subprocess.run(["umount", "-l", str(runs)], check=False)


def prepare(place: Path) -> None:
    (place / "text").mkdir(parents=True)
    for number in range(12):
        lines = [f"line {line} of file {number} says {line * number % 97} times {line % 13}" for line in range(60)]
        (place / "text" / f"text{number:02d}.txt").write_text("\n".join(lines))
    (place / "inside").mkdir()
    (place / "inside" / "sitecustomize.py").write_text(INSIDE)


def straight_curve(place: Path, ranks: int, steps: int) -> list[tuple[Any, ...]]:
    """The curve of a run that nobody breaks."""
    with runs_of(place, "straight", is_small=False) as runs:
        chain = Chain(place=place, ranks=ranks, steps=steps, name="straight", runs=runs)
        chain.go()
        chain.wait(lambda: False, 10 * LIMIT_S)
        found = curve(chain.metrics())
        assert len(found) == steps, f"the straight run: {(place / 'straight.log').read_text()[-2000:]}"
        return found


def summary(results: Results, num_planned: int) -> dict[str, Any]:
    """Counts over the last attempt of each case; the attempts before it stand in the file."""
    rows = [row for row in results.latest().values() if "chain" not in row]
    resumed: dict[str, list[float]] = {}
    for row in rows:
        if row["resumed"]:
            resumed.setdefault(row["case"].split("-")[0], []).append(row["next_step_after_s"])
    return {
        "num_planned": num_planned,
        "num_run": len(rows),
        "num_resumed": sum(row["resumed"] for row in rows),
        "num_bitwise": sum(bool(row.get("is_bitwise")) for row in rows),
        "num_with_processes_left": sum(bool(row.get("left")) for row in rows),
        "next_step_after_s": {
            fault: {"least": min(all_s), "median": statistics.median(all_s), "most": max(all_s)}
            for fault, all_s in resumed.items()
        },
    }


def is_good(row: dict[str, Any]) -> bool:
    return bool(row["resumed"] and row["is_bitwise"] and not row["left"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only-ranks", type=int, nargs="*", help="which ranks to break; else each in turn")
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=FAULTS)
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="no new case after so many seconds")
    add_options(parser)
    options = parser.parse_args()
    ends_s = time.monotonic() + options.limit_s
    results = Results(
        "supervise",
        what="faults in every rank of a run that supervises itself: resumed by itself, bitwise, nothing left",
        measures=["src/emberward/supervise", "src/emberward/rank", "src/emberward/checkpoint"],
        settings={"ranks": options.ranks, "seeds": options.seeds},
        is_fresh=options.fresh,
        folder=options.into,
    )
    victims = options.only_ranks if options.only_ranks is not None else range(options.ranks)
    links = [
        (seed, is_disk, [Case(fault=fault, rank=rank, seed=seed) for rank in victims for fault in faults])
        for seed in range(options.seeds)
        for is_disk, faults in ((False, [f for f in options.faults if f != "disk_full"]), (True, ["disk_full"]))
        if not is_disk or "disk_full" in options.faults
    ]
    num_planned = sum(len(cases) for _, _, cases in links)
    links = [(seed, is_disk, [case for case in cases if not results.has(case.name)]) for seed, is_disk, cases in links]
    steps = STEPS_A_CASE * max((len(cases) for _, _, cases in links), default=0) + 2 * SAVE_EVERY
    place = Path(tempfile.mkdtemp(prefix="supervise-"))
    try:
        prepare(place)
        straight = straight_curve(place, options.ranks, steps) if any(cases for *_, cases in links) else []
        for seed, is_disk, cases in links:
            if cases and time.monotonic() < ends_s:
                run_chain(f"{'disk' if is_disk else 'chain'}-{seed}", cases, place, straight, results, ends_s)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    results.summarise(summary(results, num_planned))
    rows = [row for row in results.latest().values() if "chain" not in row]
    return 0 if all(is_good(row) for row in rows) else 1


def run_chain(
    name: str, cases: list[Case], place: Path, straight: list[tuple[Any, ...]], results: Results, ends_s: float
) -> None:
    """Runs the cases one after the other in one run, and lets it come to its end."""
    with runs_of(place, name, is_small=name.startswith("disk")) as runs:
        chain = Chain(place=place, ranks=results.settings["ranks"], steps=len(straight), name=name, runs=runs)
        try:
            for case in cases:
                if time.monotonic() > ends_s:
                    return
                row = run_case(case, chain, straight)
                results.add(case.name, row)
                if not row["resumed"]:
                    print((place / f"{name}.log").read_text()[-3000:], file=sys.stderr, flush=True)
            results.add(f"chain {name}", finish(chain, straight))
        finally:
            chain.stop()


if __name__ == "__main__":
    raise SystemExit(main())
