"""Healthy jobs with a rank that is away for 100 to 600 s, under `emberward run` as it is by default: none may be ended.

Usage: python tools/campaign_pauses.py [--fresh] [--at-once N] [--seed N] [KIND=SECONDS ...]

The programs are the kinds of tests/ranks/pauses/job.py: uploads and downloads over loopback servers, saves,
tokenisation, another program, waits for other processes. `stuck` and `skips` never come back, and have to be ended 60 s
after that was announced. Every attempt is added to docs/measured/pauses.json; a case that it holds is not run again.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measured import Results, add_options

ROOT = Path(__file__).resolve().parent.parent
JOB = ROOT / "tests" / "ranks" / "pauses" / "job.py"
HEALTHY = (
    "upload", "upload_blocked", "upload_thread", "download", "download_silent", "save", "save_blocked", "tokenise",
    "tokenise_pool", "command", "other_process", "file_lock",
)  # fmt: skip
STUCK = ("stuck", "skips")
SHORTEST_S, LONGEST_S = 100.0, 600.0
SPARE_S = 600.0
"""Beside its pause, what a job may take on a busy machine before it is given up."""
SEED = 20261122


def attempt(kind: str, seconds: float) -> dict[str, Any]:
    """One job from its start to its end, and whether what was said and done of it is right."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pauses-", ignore_cleanup_errors=True) as scratch:
        command = [
            sys.executable, "-m", "emberward", "run", "--json", "--runs", scratch, "--name", kind, "--",
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "127.0.0.1:0", str(JOB), kind, str(seconds),
        ]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        limit_s = seconds + SPARE_S
        done = subprocess.run(
            command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
        files = list(Path(scratch).glob(f"{kind}/*/findings.jsonl"))
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    errors = [each for each in found if each["severity"] == "error"]
    is_announced = any(each["code"] == "L115" for each in found)
    is_ended = done.returncode != 0
    right = [bool(errors), is_announced, is_ended] == [kind in STUCK] * 3
    return {
        "kind": kind,
        "seconds": seconds,
        "exit_code": done.returncode,
        "said": dict(sorted(Counter(f"{each['code']} {each['severity']}" for each in found).items())),
        "errors": [f"{each['code']} {each['certainty']} {each['cause']}: {each['message'][:160]}" for each in errors],
        "right": right,
        "took_s": round(time.monotonic() - began_s, 1),
        **({} if right else {"output": (done.stdout + done.stderr)[-2000:]}),
    }


def summary(attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """What counts of all attempts."""
    healthy = [each for each in attempts if each["kind"] in HEALTHY]
    stuck = [each for each in attempts if each["kind"] in STUCK]
    return {
        "healthy": len(healthy),
        "healthy_s": [min(each["seconds"] for each in healthy), max(each["seconds"] for each in healthy)]
        if healthy
        else None,
        "healthy_that_were_ended_or_called_an_error": [each["key"] for each in healthy if not each["right"]],
        "stuck": len(stuck),
        "stuck_announced_and_ended": sum(each["right"] for each in stuck),
    }


def main() -> int:
    """Runs what is asked for and not yet done, and writes each attempt down; 1 when one of the round was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("kinds", nargs="*", help="KIND=SECONDS; by default every kind, with lengths drawn")
    asked = parser.parse_args()
    results = Results(
        "pauses",
        what="healthy jobs whose rank 0 is away for 100 to 600 s under run: none is ended; two that are stuck are",
        measures=(
            "src/emberward/supervise",
            "src/emberward/sources",
            "src/emberward/diagnose",
            "tools/campaign_pauses.py",
            "tests/ranks/pauses",
        ),
        settings={"seed": asked.seed},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    drawn = random.Random(asked.seed)
    jobs = [(kind, float(round(drawn.uniform(SHORTEST_S, LONGEST_S)))) for kind in HEALTHY]
    jobs += [(kind, 0.0) for kind in STUCK]
    if asked.kinds:
        jobs = [(kind, float(seconds)) for kind, _, seconds in (each.partition("=") for each in asked.kinds)]
    lock = threading.Lock()

    def one(job: tuple[str, float]) -> None:
        row = attempt(*job)
        with lock:
            results.add(f"{job[0]} {job[1]:.0f} s", row)

    with ThreadPoolExecutor(asked.at_once) as pool:
        list(pool.map(one, [job for job in jobs if not results.has(f"{job[0]} {job[1]:.0f} s")]))
    results.summarise(summary(results.attempts))
    return 0 if all(each["right"] for each in results.latest().values()) else 1


if __name__ == "__main__":
    sys.exit(main())
