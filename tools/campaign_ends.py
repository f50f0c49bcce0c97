"""Ends a real job in eight ways under ``emberward run`` and asks its page how the run stands, until it says so.

    .venv/bin/python tools/campaign_ends.py [--fresh]       a few minutes; writes docs/measured/ends.json

Two ranks on gloo; the page is served by ``emberward ui`` in a process of its own, as a person has it open. The time is
from the fault to the first page whose state is the right one; a state that is over and wrong is written down too.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from measured import Results, add_options

EMBERWARD = (sys.executable, "-m", "emberward")
LIMIT_S = 90.0
NUM_STEPS = 10_000
PROGRAM = """
import os, pathlib, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
folder = pathlib.Path(os.environ["FAULTS"])
(folder / f"pid{rank}").write_text(str(os.getpid()))
for step in range(int(os.environ["STEPS"])):
    loss = torch.ones(8)
    dist.all_reduce(loss)
    (folder / f"step{rank}").write_text(str(step))
    if rank == 1 and (folder / "raise").exists():
        raise ValueError("labels are out of range")
    if rank == 1 and (folder / "exit").exists():
        sys.exit(0)
    if rank == 1 and (folder / "sleep").exists():
        time.sleep(10_000)
    if (folder / "end").exists() and step % 10 == 9:
        break
    time.sleep(0.05)
dist.destroy_process_group()
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that trains. `launcher`: ``emberward run``; `ranks`: process ids by rank."""

    launcher: psutil.Process
    ranks: tuple[int, int]
    folder: Path

    def touch(self, name: str) -> None:
        """Asks rank 1, or all, for a fault at the end of its step."""
        (self.folder / name).touch()

    def kill_all(self) -> None:
        """Kills the launcher and everything below it, as the end of its machine does."""
        for each in [self.launcher, *self.launcher.children(recursive=True)]:
            each.kill()


ENDS: dict[str, tuple[str, Callable[[Job], None]]] = {
    "done": ("DONE", lambda job: job.touch("end")),
    "exception on a rank": ("FAILED", lambda job: job.touch("raise")),
    "a rank leaves with exit code 0": ("FAILED", lambda job: job.touch("exit")),
    "SIGKILL of a rank": ("FAILED", lambda job: os.kill(job.ranks[1], signal.SIGKILL)),
    "SIGSTOP of a rank": ("STALLED", lambda job: os.kill(job.ranks[1], signal.SIGSTOP)),
    "a rank sleeps for ever": ("STALLED", lambda job: job.touch("sleep")),
    "Ctrl-C": ("STOPPED", lambda job: job.launcher.send_signal(signal.SIGINT)),
    "SIGKILL of the launcher alone": ("LAUNCHER DIED", lambda job: job.launcher.kill()),
    "SIGKILL of everything": ("LAUNCHER DIED", Job.kill_all),
}


def state_on(port: int, path: str) -> str:
    """The state that the run's page shows."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.request("GET", path)
    body = link.getresponse().read().decode()
    link.close()
    found = re.search(r'class="state[^>]*>.*?<strong>([^<]*)</strong>', body, re.S)
    return found.group(1) if found else ""


def wait_until(is_so: Callable[[], bool], *, limit_s: float) -> float:
    """Seconds until it was so. Raises TimeoutError."""
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > limit_s:
            raise TimeoutError
        threading.Event().wait(0.1)
    return time.monotonic() - began_s


def end(fault: Callable[[Job], None], state: str, scratch: Path) -> dict[str, object]:
    """One job, its fault, and what its page says."""
    program = scratch / "train.py"
    program.write_text(PROGRAM)
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                "--rdzv-endpoint", "127.0.0.1:0"]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FAULTS": str(scratch), "STEPS": str(NUM_STEPS)}
    command = [*EMBERWARD, "run", "--runs", str(scratch / "runs"), "--name", "x", "--", *torchrun, str(program)]
    with (scratch / "output").open("wb") as output:
        launched = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    left: list[psutil.Process] = []
    try:
        wait_until(
            lambda: (scratch / "step1").exists() and int((scratch / "step1").read_text() or 0) > 60, limit_s=LIMIT_S
        )
        run = next((scratch / "runs" / "x").iterdir())
        ui = subprocess.Popen([*EMBERWARD, "ui", str(run), "--port", "0", "--json"], stdout=subprocess.PIPE, text=True)
        try:
            assert ui.stdout is not None
            port = json.loads(ui.stdout.readline())["port"]
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            link.request("GET", "/")
            path = "/" + (link.getresponse().getheader("Location") or "")
            wait_until(lambda: state_on(port, path) == "RUNNING", limit_s=LIMIT_S)
            ranks = (int((scratch / "pid0").read_text()), int((scratch / "pid1").read_text()))
            job = Job(psutil.Process(launched.pid), ranks, scratch)
            left = [job.launcher, *job.launcher.children(recursive=True)]
            seen: list[str] = []

            def is_right() -> bool:
                now = state_on(port, path)
                if not seen or seen[-1] != now:
                    seen.append(now)
                return now == state

            fault(job)
            try:
                seconds = wait_until(is_right, limit_s=LIMIT_S)
            except TimeoutError:
                return {"right": False, "state": state, "seen": seen}
            return {"right": True, "state": state, "seconds": round(seconds, 1), "seen": seen}
        finally:
            ui.kill()
            ui.wait()
    finally:
        for each in left:
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue
        launched.kill()
        launched.wait()


def main() -> None:
    """Runs the ends that this round lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--only", nargs="*", choices=list(ENDS), help="these ends alone")
    options = parser.parse_args()
    results = Results(
        "ends",
        what="nine ends of a real job, and how long its page takes to say so",
        measures=["src/emberward/web", "src/emberward/report", "src/emberward/supervise", "src/emberward/diagnose"],
        settings={"ranks": 2},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for name, (state, fault) in ENDS.items():
        if not results.has(name) and (not options.only or name in options.only):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
                results.add(name, end(fault, state, Path(scratch)))
    rows = results.latest().values()
    results.summarise({
        "right": sum(row["right"] for row in rows),
        "of": len(rows),
        "slowest_s": max(row.get("seconds", LIMIT_S) for row in rows),
    })  # fmt: skip


if __name__ == "__main__":
    main()
