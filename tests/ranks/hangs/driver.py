"""Starts a program of this folder on real ranks, with or without the recorder, and watches it until a verdict."""

import atexit
import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from ports import reserve_port
from warm import TORCH, WarmServer

from emberward.diagnose.live import Snapshot
from emberward.findings import Finding, Severity
from emberward.sources.attach import RING_VARIABLE, attach_environment
from emberward.sources.live import LiveExplanation, Watcher, descendants, parents
from emberward.sources.ring import new_ring_folder, remove_ring_folder
from ranks.hangs.truth import Truth

HOME = Path(__file__).parent
BACKEND = "EMBERWARD_TEST_BACKEND"
"""Names the backend of the programs (`job.main`)."""
START_LIMIT_S = 120.0
TOLD_LIMIT_S = 10.0


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has asked how."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


@functools.cache
def warm_ranks() -> WarmServer:
    """Where ranks of programs are forked, to this process's end.

    The recorder is loaded into every one that gets a folder for its ring.
    """
    env = attach_environment({**os.environ, "OMP_NUM_THREADS": "1"}, ring_folder=Path("/nonexistent"))
    server = WarmServer(*TORCH, environment=env)
    atexit.register(server.close)
    return server


@dataclass
class HangJob:
    """One program on `world` ranks. Use as a context: leaving it ends every process.

    With a `server` the ranks are forked from it; else they are started, by torchrun if asked for. `backend` is gloo or
    `emberward.sources.cpu_nccl`'s.
    """

    family: str
    name: str
    folder: Path
    world: int = 4
    seconds: float = 10.0
    is_recorded: bool = True
    with_torchrun: bool = False
    server: WarmServer | None = None
    backend: str = "gloo"
    ring_folder: Path = field(init=False)
    processes: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)
    pids: list[int] = field(init=False, default_factory=list)

    def __enter__(self) -> "HangJob":
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ring_folder = new_ring_folder(f"test-{self.name}")
        env = {
            "WORLD_SIZE": str(self.world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(reserve_port()),
            "OMP_NUM_THREADS": "1",
            BACKEND: self.backend,
        }
        if self.is_recorded or self.server is not None:
            env[RING_VARIABLE] = str(self.ring_folder)
        program = [str(HOME / f"{self.family}.py"), self.name, str(self.folder), str(self.seconds)]
        try:
            self._start_all(env, program)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self, env: dict[str, str], program: list[str]) -> None:
        if self.with_torchrun:
            command = ["-m", "torch.distributed.run", f"--nproc-per-node={self.world}"]
            command += [f"--master-port={env['MASTER_PORT']}", *program]
            self._start(command, env, "launcher")
        else:
            for rank in range(self.world):
                self._start(program, {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, str(rank))

    def _start(self, argv: list[str], env: dict[str, str], label: str) -> None:
        log = self.folder / f"log.{label}"
        if self.server is not None:
            with log.open("wb") as out:
                self.pids.append(self.server.start(argv, cwd=self.folder, stdout=out, stderr=out, env=env).pid)
            return
        whole = {**os.environ, **env}
        if self.is_recorded:
            whole = attach_environment(whole, ring_folder=self.ring_folder)
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, *argv], env=whole, stdout=out, stderr=out, start_new_session=True, cwd=self.folder
            )
        self.processes.append(process)
        self.pids.append(process.pid)

    def __exit__(self, *_: object) -> None:
        below = parents()
        ended = self.exits()
        alive = [pid for pid in self.pids if pid not in ended]
        doomed = [pid for parent in alive for pid in (parent, *descendants(parent, below))]
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait(60.0)
        remove_ring_folder(self.ring_folder)

    def exits(self) -> dict[int, int]:
        """The exit codes so far, by pid: of all that have ended by now, for a server tells of one after another."""
        if self.server is not None:
            gone = [pid for pid in self.pids if not psutil.pid_exists(pid) or is_zombie(pid)]
            until = time.monotonic() + TOLD_LIMIT_S
            while not self.server.exits.keys() >= {*gone} and time.monotonic() < until:
                time.sleep(0.01)
            return {pid: code for pid, code in self.server.exits.copy().items() if pid in self.pids}
        return {p.pid: p.returncode for p in self.processes if p.poll() is not None}

    def fault_unix(self) -> float | None:
        """When the fault began; None while it has not."""
        times = [float(path.read_text().split()[0]) for path in self.folder.glob("fault.[0-9]*")]
        return min(times, default=None)

    def has_left(self) -> bool:
        """Whether every rank came to its end."""
        return len(list(self.folder.glob("left.[0-9]*"))) == self.world

    def logs(self) -> str:
        """The ends of the ranks' logs."""
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-1500:]}" for p in self.folder.glob("log.*"))


@dataclass
class Watched:
    """What the watcher said: every finding with the seconds since the fault began."""

    said: list[tuple[float, Finding]] = field(default_factory=list)
    resolved: list[Finding] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    is_finished: bool = False
    log: str = ""
    pids: list[int] = field(default_factory=list)
    asked: LiveExplanation | None = None

    def first(self, severity: Severity) -> tuple[float, Finding] | None:
        return next((item for item in self.said if item[1].severity is severity), None)

    @property
    def errors(self) -> list[Finding]:
        return [finding for _, finding in self.said if finding.severity is Severity.ERROR]


def watch(job: HangJob, *, until: Severity, limit_s: float, poll_s: float = 1.0) -> Watched:
    """Polls until a finding of that severity (or worse) was said after the fault, the program ended, or the limit."""
    with contextlib.closing(Watcher(job.ring_folder)) as watcher:
        return _watched(job, watcher, until=until, limit_s=limit_s, poll_s=poll_s)


def _watched(job: HangJob, watcher: Watcher, *, until: Severity, limit_s: float, poll_s: float) -> Watched:
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
        if report.snapshot is not None:
            seen.snapshots.append(report.snapshot)
        if fault is not None and any(f.severity in enough for f in report.findings):
            return seen
        if job.has_left():
            seen.said += [(after, finding) for finding in watcher.end(job.exits()).findings]
            return seen
        if len(job.exits()) == len(job.pids):
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
    lines = path.read_text().splitlines()
    line = lines[int(number) - 1] if int(number) <= len(lines) else ""
    return any(text in line for text in truth.line.split(" or "))


def is_right(finding: Finding, truth: Truth) -> dict[str, bool]:
    """Which parts of the verdict are right."""
    return {
        "kind": finding.kind.value == truth.kind,
        "ranks": finding.culprit_ranks == truth.ranks,
        "cause": finding.cause.value == truth.cause,
        "line": is_line(finding, truth),
    }
