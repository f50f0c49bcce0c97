"""Starts a program of this folder on real ranks, with or without the recorder, and watches it until a verdict."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from emberward.findings import Finding, Severity
from emberward.sources.attach import attach_environment
from emberward.sources.live import Look, Watcher, descendants, parents
from emberward.sources.ring import new_ring_folder, remove_ring_folder
from ranks.hangs.truth import Truth

HOME = Path(__file__).parent
START_LIMIT_S = 120.0


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@dataclass
class HangJob:
    """One program on `world` ranks. Use as a context: leaving it ends every process."""

    family: str
    name: str
    folder: Path
    world: int = 4
    seconds: float = 10.0
    is_recorded: bool = True
    with_torchrun: bool = False
    ring_folder: Path = field(init=False)
    processes: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)

    def __enter__(self) -> "HangJob":
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ring_folder = new_ring_folder(f"test-{self.name}")
        base = {
            **os.environ,
            "WORLD_SIZE": str(self.world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "OMP_NUM_THREADS": "1",
        }
        if self.is_recorded:
            base = attach_environment(base, ring_folder=self.ring_folder)
        program = [str(HOME / f"{self.family}.py"), self.name, str(self.folder), str(self.seconds)]
        if self.with_torchrun:
            command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={self.world}"]
            command += [f"--master-port={base['MASTER_PORT']}", *program]
            self._start(command, base, "launcher")
        else:
            for rank in range(self.world):
                env = {**base, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                self._start([sys.executable, *program], env, str(rank))
        return self

    def _start(self, command: list[str], env: dict[str, str], label: str) -> None:
        with (self.folder / f"log.{label}").open("wb") as log:
            self.processes.append(
                subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True, cwd=self.folder)
            )

    def __exit__(self, *_: object) -> None:
        below = parents()
        doomed = [p for process in self.processes for p in (process.pid, *descendants(process.pid, below))]
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        remove_ring_folder(self.ring_folder)

    def exits(self) -> dict[int, int]:
        """The exit codes so far, by pid."""
        return {p.pid: p.returncode for p in self.processes if p.poll() is not None}

    def fault_unix(self) -> float | None:
        """When the fault began; None while it has not."""
        times = [float(path.read_text().split()[0]) for path in self.folder.glob("fault.[0-9]*")]
        return min(times, default=None)

    def has_left(self) -> bool:
        """Whether every rank came to its end."""
        return len(list(self.folder.glob("left.[0-9]*"))) == self.world

    def logs(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-1500:]}" for p in self.folder.glob("log.*"))


@dataclass
class Watched:
    """What the watcher said: every finding with the seconds since the fault began."""

    said: list[tuple[float, Finding]] = field(default_factory=list)
    resolved: list[Finding] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    def first(self, severity: Severity) -> tuple[float, Finding] | None:
        return next((item for item in self.said if item[1].severity is severity), None)

    @property
    def errors(self) -> list[Finding]:
        return [finding for _, finding in self.said if finding.severity is Severity.ERROR]


def watch(job: HangJob, *, until: Severity, limit_s: float, poll_s: float = 1.0) -> Watched:
    """Polls until a finding of that severity (or worse) was said after the fault, the program ended, or the limit."""
    watcher = Watcher(job.ring_folder)
    seen = Watched()
    start = time.monotonic()
    enough = {Severity.ERROR} if until is Severity.ERROR else {Severity.ERROR, Severity.NOTICE, Severity.WARNING}
    while True:
        began = time.monotonic()
        report = watcher.poll(job.exits())
        fault = job.fault_unix()
        after = 0.0 if fault is None else time.time() - fault
        seen.said += [(after, finding) for finding in report.findings]
        seen.resolved += report.resolved
        if report.look is not None:
            seen.looks.append(report.look)
        if fault is not None and any(f.severity in enough for f in report.findings):
            return seen
        if job.has_left():
            return seen
        if len(job.exits()) == len(job.processes):
            last = watcher.end(job.exits())
            seen.said += [(after, finding) for finding in last.findings]
            return seen
        idle = time.monotonic() - start
        if (fault is None and idle > START_LIMIT_S) or (fault is not None and after > limit_s):
            return seen
        time.sleep(max(0.0, poll_s - (time.monotonic() - began)))


def is_line(finding: Finding, truth: Truth) -> bool:
    """Whether the finding's site is the guilty line."""
    if not truth.line:
        return True
    if finding.site is None:
        return False
    file, _, number = finding.site.rpartition(":")
    path = HOME / Path(file).name
    if not path.exists() or not number.isdigit():
        return False
    return truth.line in path.read_text().splitlines()[int(number) - 1]


def is_right(finding: Finding, truth: Truth) -> dict[str, bool]:
    """Which parts of the verdict are right."""
    return {
        "kind": finding.kind.value == truth.kind,
        "ranks": finding.culprit_ranks == truth.ranks,
        "cause": finding.cause.value == truth.cause,
        "line": is_line(finding, truth),
    }
