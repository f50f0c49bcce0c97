"""What `emberward run` costs a job: its steps with and without, and what its own processes take while the job runs.

    python benchmarks/run_overhead.py --parts steps,watch

steps: a gloo program of two ranks that adds gradients runs alone and supervised, in the order A B B A, again and again.
Of each run the first fifth of its steps is left out. A pair's ratio is that of two neighbouring runs, of the median
step and of the processor time that both ranks' steps took, which a machine's other users disturb less. watch: eight
ranks that step five times a second; the processor time of the supervisor and of its watcher over a minute in which
nothing happens, after the start has passed, as a share of one core.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 300.0
POLL_S = 0.2
SETTLE_S = 40.0
"""From the first step on: the watcher reads everything while a job is young."""
WATCHED_S = 60.0
RANKS, WATCHED_RANKS = 2, 8
STEPS_JOB = """
import os, sys, time, torch
import torch.distributed as dist
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(128, 512)
rows = []
for step in range(int(sys.argv[1])):
    began, spent = time.perf_counter(), time.process_time()
    model(data).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
    rows.append((time.perf_counter() - began, time.process_time() - spent))
open(f"{sys.argv[2]}{dist.get_rank()}", "w").write(repr([list(row) for row in rows[len(rows) // 5:]]))
dist.destroy_process_group()
"""
WATCH_JOB = """
import sys, time, torch
import torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = None
goes_on = torch.ones(1)
while goes_on.item():
    model(torch.ones(1, 8)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    time.sleep(0.2)
    optimizer.step()
    if end is None:
        end = time.monotonic() + float(sys.argv[1])
        if dist.get_rank() == 0:
            open(sys.argv[2], "w").close()
    goes_on.fill_(time.monotonic() < end)
    dist.broadcast(goes_on, src=0)
dist.destroy_process_group()
"""


def started(place: Path, job: str, num_ranks: int, *arguments: str, is_supervised: bool) -> "subprocess.Popen[bytes]":
    """The job under torchrun, alone or under `emberward run`."""
    script = place / "job.py"
    script.write_text(job, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks), "--rdzv-backend",
               "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(script), *arguments]  # fmt: skip
    if is_supervised:
        command = [sys.executable, "-m", "emberward", "run", "--runs", str(place / "runs"), "--", *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def steps_of(place: Path, num_steps: int, *, is_supervised: bool) -> tuple[float, float]:
    """The median step in seconds, and the processor time of an ordinary step, both ranks together."""
    out = place / "steps"
    process = started(place, STEPS_JOB, RANKS, str(num_steps), str(out), is_supervised=is_supervised)
    assert process.wait(LIMIT_S) == 0, "the job failed"
    rows = [json.loads(Path(f"{out}{rank}").read_text(encoding="utf-8")) for rank in range(RANKS)]
    return statistics.median(row[0] for row in rows[0]), sum(statistics.median(r[1] for r in each) for each in rows)


def measure_steps(pairs: int, num_steps: int) -> dict[str, Any]:
    """Ratios with over without, of pairs in the order A B B A."""
    found: list[dict[bool, tuple[float, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            order = (False, True) if pair % 2 == 0 else (True, False)
            found.append({each: steps_of(Path(folder), num_steps, is_supervised=each) for each in order})
            times = [found[-1][True][index] / found[-1][False][index] for index in (0, 1)]
            sys.stdout.write(f"pair {pair}: step {times[0]:.4f}, processor time {times[1]:.4f}\n")
            sys.stdout.flush()
    return {
        "num_pairs": pairs,
        "steps": num_steps,
        "calls_a_step": 8,
        "step_s_without_median": statistics.median(each[False][0] for each in found),
        "step_cpu_s_without_median": statistics.median(each[False][1] for each in found) / RANKS,
        "step_ratio": spread([each[True][0] / each[False][0] for each in found]),
        "step_ratio_of_fastest_runs": min(e[True][0] for e in found) / min(e[False][0] for e in found),
        "cpu_ratio": spread([each[True][1] / each[False][1] for each in found]),
    }


def spread(values: list[float]) -> dict[str, Any]:
    """Median, quartiles and the values themselves."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return {"median": statistics.median(ordered), "quartiles": [ordered[quarter], ordered[-1 - quarter]], "all": values}


def cpu_s(pid: int) -> float:
    """Seconds of processor that a process has taken, by the scheduler's own nanoseconds; Linux."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total / 1e9


def measure_watch() -> dict[str, Any]:
    """What the supervisor and the watcher of eight ranks take while nothing happens."""
    with tempfile.TemporaryDirectory() as folder:
        place, stepped = Path(folder), Path(folder) / "stepped"
        seconds = SETTLE_S + WATCHED_S + 10.0
        process = started(place, WATCH_JOB, WATCHED_RANKS, str(seconds), str(stepped), is_supervised=True)
        end_s = time.monotonic() + LIMIT_S
        while not stepped.exists():
            assert process.poll() is None and time.monotonic() < end_s, "the job did not begin"
            time.sleep(POLL_S)
        time.sleep(SETTLE_S)
        children = psutil.Process(process.pid).children()
        watcher = next(each.pid for each in children if "emberward.supervise.watcher" in each.cmdline())
        pids = {"supervisor": process.pid, "watcher": watcher}
        before, began_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(WATCHED_S)
        after, took_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic() - began_s
        assert process.wait(LIMIT_S) == 0, "the job failed"
    shares = {f"{name}_share_of_a_core": (after[name] - before[name]) / took_s for name in pids}
    return {"ranks": WATCHED_RANKS, "steps_a_second": 5, "seconds": took_s, **shares}


def main() -> int:
    """Measures the asked parts; those of an earlier file stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="steps,watch")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=300)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "run_overhead",
        what="a job under `emberward run` against the job alone, in turns, and what the supervisor and watcher use",
        measures=["src/emberward/sources", "src/emberward/supervise"],
        settings={"pairs": options.pairs, "steps": options.steps},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for part in options.parts.split(","):
        found = measure_steps(options.pairs, options.steps) if part == "steps" else measure_watch()
        results.add(part, found)
    results.summarise(results.latest())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
