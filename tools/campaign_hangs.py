"""Runs every program of tests/ranks/hangs for real, and writes docs/measured/hangs.json and the confusion matrix.

Usage: python tools/campaign_hangs.py [--seeds N] [--at-once N] [--minutes M] [--fresh] [NAME ...]

For each program that hangs: what the watcher said and when, what ``explain`` says of the dumps that were kept then
(flight recorder, stacks, both), each held against the truth. For each look-alike of 10 to 60 seconds: what was said
that is more than a notice. Each run is written down when it ends. A campaign that was broken off, by --minutes or by a
person, goes on: runs of the same seed that the file holds are not made again. --fresh begins a new round.
"""

import argparse
import collections
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

# mypy does not see tests/.
from measured import Results, add_options  # noqa: E402
from ranks.hangs.driver import HOME, HangJob, Watched, is_right, warm_ranks, watch  # type: ignore[import-not-found] # noqa: E402
from ranks.hangs.truth import ALIVE, TRUTHS, Truth  # type: ignore[import-not-found] # noqa: E402
from warm import WarmServer  # type: ignore[import-not-found] # noqa: E402

from emberward.findings import Finding, Severity  # noqa: E402
from emberward.sources.dumps import explain_paths  # noqa: E402
from emberward.sources.ring import find_rings, read_ring  # noqa: E402

LIMIT_S = 60.0
LENGTHS_S = (10.0, 60.0)
DUMPS_LIMIT_S = 8.0
MAX_AT_ONCE = 2
"""More programs at a time than processors make every figure one of the load."""
SEED = 20261121
SLOW = frozenset({"straggler", "config"})
"""Kinds of which a program goes on: there is a warning and no hang, so nothing to dump."""


def brief(finding: Finding, truth: Truth, pids: list[int]) -> dict[str, Any]:
    """What counts of a finding, and which parts of it are right."""
    ranks = list(finding.culprit_ranks) or sorted(pids.index(p) for p in finding.culprit_pids if p in pids)
    right = is_right(finding, truth) | {"ranks": tuple(ranks) == truth.ranks}
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "kind": finding.kind.value,
        "cause": finding.cause.value,
        "ranks": ranks,
        "site": finding.site,
        "wrong": [part for part, is_ok in right.items() if not is_ok],
    }


def keep_dumps(job: HangJob, folder: Path) -> tuple[Path, Path]:
    """Two folders: the flight recorder's dumps that the rings hold, and py-spy's stacks of all that is alive."""
    flights, stacks = folder / "flights", folder / "stacks"
    for each in (flights, stacks):
        each.mkdir(parents=True)
    # The recorder copies torch's own once nothing moves; it may be a moment behind on a busy machine.
    end = time.monotonic() + DUMPS_LIMIT_S
    while time.monotonic() < end and not all(read_ring(path).flight for path in find_rings(job.ring_folder)):
        time.sleep(0.5)
    for path in find_rings(job.ring_folder):
        view = read_ring(path)
        if view.flight is not None and view.rank is not None:
            (flights / f"dump_rank_{view.rank}").write_bytes(view.flight.data)
    spy = shutil.which("py-spy") or str(Path(sys.executable).parent / "py-spy")
    for rank, pid in enumerate(job.pids):
        command = [spy, "dump", "--json", "--subprocesses", "--pid", str(pid)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            (stacks / f"stacks_rank_{rank}.json").write_bytes(done.stdout)
    return flights, stacks


def both(flights: Path, stacks: Path) -> Path:
    """One folder with the dumps of both: two folders would be two incidents."""
    folder = flights.parent / "both"
    shutil.copytree(flights, folder)
    shutil.copytree(stacks, folder, dirs_exist_ok=True)
    return folder


def explained(truth: Truth, pids: list[int], *paths: Path) -> dict[str, Any] | None:
    """What ``explain`` says of the dumps in these folders."""
    if not any(any(path.iterdir()) for path in paths):
        return None
    return brief(explain_paths(list(paths), source_folders=[HOME]).explanations[0].verdict, truth, pids)


def run_hang(name: str, server: WarmServer, scratch: Path) -> dict[str, Any]:
    """One program that hangs or dies: verdict, times, and what its dumps tell."""
    truth = TRUTHS[name]
    with HangJob(truth.family, name, scratch / "job", world=truth.world, server=server) as job:
        until = Severity.ERROR if truth.is_sure else Severity.NOTICE
        seen = watch(job, until=until, limit_s=LIMIT_S)
        goes_on = truth.kind in SLOW
        if not truth.is_sure and seen.said and not goes_on:
            # A rank that burns, reads or sleeps stays a notice: what is said after two snapshots counts.
            seen.said += watch_on(job, seen)
        dumps: dict[str, Any] = dict.fromkeys(("flights", "stacks", "both"))
        if not goes_on:
            flights, stacks = keep_dumps(job, scratch)
            dumps = {
                "flights": explained(truth, job.pids, flights),
                "stacks": explained(truth, job.pids, stacks),
                "both": explained(truth, job.pids, both(flights, stacks)),
            }
        left = job.has_left()
        pids = list(job.pids)
    said = [(after, finding) for after, finding in seen.said if after > 0]
    final = said[-1] if said else None
    return {
        "program": name,
        "truth": {"kind": truth.kind, "ranks": list(truth.ranks), "cause": truth.cause, "line": truth.line},
        "is_provable": truth.is_sure,
        "first_word_s": None if not said else round(said[0][0], 1),
        "verdict_s": None if final is None else round(final[0], 1),
        "verdict": None if final is None else brief(final[1], truth, pids),
        "others": sorted({f"{f.severity.value} {f.cause.value}" for _, f in said[:-1]}),
        "dumps": dumps,
        "is_hung": not truth.ends and not left and not goes_on,
    }


def watch_on(job: HangJob, seen: Watched) -> list[tuple[float, Finding]]:
    """What a fresh watcher says of the same hang: its two snapshots are later than those of the first."""
    again = watch(job, until=Severity.NOTICE, limit_s=LIMIT_S)
    key = {(f.cause, f.site) for _, f in seen.said}
    return [(after, finding) for after, finding in again.said if (finding.cause, finding.site) not in key]


def run_alive(name: str, seconds: float, server: WarmServer, scratch: Path) -> dict[str, Any]:
    """One look-alike: what was said that is more than a notice."""
    with HangJob("alive", name, scratch / "job", seconds=seconds, server=server) as job:
        seen = watch(job, until=Severity.ERROR, limit_s=seconds + LIMIT_S)
        left = job.has_left()
    alarms = [f"{f.code} {f.cause.value} {f.message}" for _, f in seen.said if f.severity is not Severity.NOTICE]
    notices = sorted({f"{f.cause.value} {list(f.culprit_ranks)}" for _, f in seen.said})
    return {"program": name, "seconds": round(seconds, 1), "finished": left, "alarms": alarms, "notices": notices}


def one(job: tuple[str, float | None], server: WarmServer) -> dict[str, Any]:
    """One run in a folder of its own."""
    name, seconds = job
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="emberward-hangs-") as folder:
        scratch = Path(folder)
        result = run_hang(name, server, scratch) if seconds is None else run_alive(name, seconds, server, scratch)
    sys.stderr.write(f"{name} {time.monotonic() - began:.0f} s {result.get('verdict') or result.get('alarms')}\n")
    return result


def summary(hangs: list[dict[str, Any]], alive: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all runs, and the confusion matrix: true cause by said cause."""
    matrix: dict[str, dict[str, int]] = {}
    for run in hangs:
        said = "nothing" if run["verdict"] is None else run["verdict"]["cause"]
        row = matrix.setdefault(run["truth"]["cause"], {})
        row[said] = row.get(said, 0) + 1
    for run in alive:
        row = matrix.setdefault(f"none ({run['program']})", {})
        said = "none" if not run["alarms"] else "alarm"
        row[said] = row.get(said, 0) + 1
    verdicts = [run["verdict"] for run in hangs if run["verdict"] is not None]
    times = [run["verdict_s"] for run in hangs if run["verdict"] is not None and run["is_provable"]]
    words = [r["first_word_s"] for r in hangs if r["first_word_s"] is not None and r["truth"]["kind"] not in SLOW]
    late = [r["verdict_s"] for r in hangs if r["verdict"] is not None and r["truth"]["kind"] == "straggler"]

    def share(form: str) -> str:
        # A job that has ended leaves no dump, and one that is only wrong has no hang to dump.
        told = [run["dumps"][form] for run in hangs if run["dumps"][form] is not None and run["is_hung"]]
        return (
            f"{sum(not item['wrong'] for item in told)} all right, {sum('ranks' not in item['wrong'] for item in told)}"
            f" ranks right, of {len(told)}"
        )

    return {
        "runs": len(hangs),
        "all_right": sum(not verdict["wrong"] for verdict in verdicts),
        "wrong": {
            part: sum(part in verdict["wrong"] for verdict in verdicts) for part in ("kind", "ranks", "cause", "line")
        },
        "freeze_to_verdict_s_median": None if not times else statistics.median(times),
        "freeze_to_verdict_s_max": max(times, default=None),
        "freeze_to_first_word_s_median": None if not words else statistics.median(words),
        "straggler_to_verdict_s": sorted(late),
        "look_alikes": len(alive),
        "false_alarms": sum(bool(run["alarms"]) for run in alive),
        "explain_on_dumps": {form: share(form) for form in ("flights", "stacks", "both")},
        "confusion": matrix,
    }


def plan(names: list[str], *, seed: int, rounds: int) -> list[tuple[str, int, float | None]]:
    """Program, its how-manieth run, and a look-alike's length drawn between 10 and 60 s; one round after the other."""
    rng = random.Random(seed)
    jobs = []
    for number in range(rounds):
        one_round = [(name, number, rng.uniform(*LENGTHS_S) if name in ALIVE else None) for name in names]
        rng.shuffle(one_round)
        jobs += one_round
    return jobs


def main() -> int:
    """Exit code 1 when a verdict was wrong or a look-alike raised an alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=1, help="rounds over all programs")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--at-once", type=int, default=MAX_AT_ONCE)
    parser.add_argument("--minutes", type=float, default=None, help="begin no run after so long")
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "hangs",
        what="small real programs on gloo ranks with steps of 0.2 s: verdicts on those that hang, die or are slow, "
        "and on look-alikes",
        measures=["src/emberward/sources", "src/emberward/diagnose", "src/emberward/health", "src/emberward/match"],
        settings={"seed": options.seed},
        is_fresh=options.fresh,
        folder=options.into,
    )
    jobs = plan(options.names or [*TRUTHS, *ALIVE], seed=options.seed, rounds=options.seeds)
    due = collections.deque(job for job in jobs if not results.has(f"{job[0]} {job[1]}"))
    lock = threading.Lock()
    end_s = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    server = warm_ranks()

    def work(_: int) -> None:
        while due and (end_s is None or time.monotonic() < end_s):
            try:
                name, number, seconds = due.popleft()
            except IndexError:
                return
            row = one((name, seconds), server)
            with lock:
                results.add(f"{name} {number}", row)

    with ThreadPoolExecutor(min(options.at_once, MAX_AT_ONCE)) as pool:
        list(pool.map(work, range(MAX_AT_ONCE)))
    runs = results.attempts
    counts = summary([run for run in runs if "truth" in run], [run for run in runs if "truth" not in run])
    results.summarise(counts)
    sys.stderr.write(f"{len(due)} of {len(jobs)} runs are left: the same command goes on with them\n")
    return 1 if counts["false_alarms"] or counts["all_right"] < counts["runs"] else 0


if __name__ == "__main__":
    sys.exit(main())
