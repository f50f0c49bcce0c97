"""What `emberward run` costs a job: step time with and without it, in pairs, and the processor time it takes itself.

    python benchmarks/run_overhead.py --pairs 10 --output docs/measured/run_overhead.json

The job is a gloo program of two ranks that adds gradients. Each pair runs it once alone and once supervised, in turn
first; the ratio is that of the medians of the steps' times. The processor time is that of the supervisor and
its watcher over the time of the run, as a share of one core.
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

ROOT = Path(__file__).resolve().parents[1]
POLL_S = 0.1
LIMIT_S = 300.0
JOB = """
import os, sys, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 256)
times = []
for step in range(int(sys.argv[1])):
    began = time.perf_counter()
    model(data).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
    times.append(time.perf_counter() - began)
if dist.get_rank() == 0:
    open(sys.argv[2], "w").write(repr(times[len(times) // 5:]))
dist.destroy_process_group()
"""


def run_once(place: Path, steps: int, *, is_supervised: bool) -> tuple[list[float], float | None]:
    """The step times of rank 0, and the share of a core that the supervisor and its watcher took."""
    job, out = place / "job.py", place / "times"
    job.write_text(JOB)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
               "--rdzv-endpoint", "127.0.0.1:0", str(job), str(steps), str(out)]  # fmt: skip
    if is_supervised:
        command = [sys.executable, "-m", "emberward", "run", "--runs", str(place / "runs"), "--", *command]
    began_s = time.monotonic()
    process = subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    spent: dict[int, float] = {}
    while process.poll() is None and time.monotonic() - began_s < LIMIT_S:
        if is_supervised:
            spent |= own_cpu_s(process.pid)
        time.sleep(POLL_S)
    assert process.wait(1.0) == 0, "the job failed"
    share = sum(spent.values()) / (time.monotonic() - began_s) if is_supervised else None
    return json.loads(out.read_text()), share


def own_cpu_s(pid: int) -> dict[int, float]:
    """pid -> seconds of processor time so far of the supervisor and of its watcher."""
    found = {}
    try:
        supervisor = psutil.Process(pid)
        watchers = [each for each in supervisor.children() if "emberward.supervise.watcher" in each.cmdline()]
        for each in (supervisor, *watchers):
            times = each.cpu_times()
            found[each.pid] = times.user + times.system
    except psutil.Error:
        pass
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    ratios, shares = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(options.pairs):
            medians: dict[bool, float] = {}
            for is_supervised in (pair % 2 == 0, pair % 2 == 1):
                times, share = run_once(Path(folder), options.steps, is_supervised=is_supervised)
                medians[is_supervised] = statistics.median(times)
                if share is not None:
                    shares.append(share)
            ratios.append(medians[True] / medians[False])
            print(f"pair {pair}: {ratios[-1]:.4f}, {shares[-1]:.4f} of a core", flush=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    value: dict[str, Any] = {
        "commit": commit.stdout.strip() or None,
        "pairs": options.pairs,
        "steps": options.steps,
        "cores": os.cpu_count(),
        "load_at_end": os.getloadavg()[0],
        "ratio_median": statistics.median(ratios),
        "ratios": ratios,
        "share_of_a_core_median": statistics.median(shares),
        "shares": shares,
    }
    if options.output is not None:
        options.output.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({key: value[key] for key in ("ratio_median", "share_of_a_core_median", "load_at_end")}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
