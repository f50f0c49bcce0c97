"""One rank of an examined script, in its own process: runs it, and says how it ended. Needs torch."""

import atexit
import contextlib
import json
import multiprocessing
import os
import random
import runpy
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch._dynamo  # DDP imports it: once here, not in each rank, and before anything is replaced

from emberward.events import Observer, Phase, Site, Trace, package_of, write_trace
from emberward.lanes import observing
from emberward.sources._site import SiteFinder
from emberward.sources._tape import Tape, Transport
from emberward.sources.recorder import Recorder
from emberward.sources.script._backend import BackendError
from emberward.sources.script._cuda import cuda_is_cpu
from emberward.sources.script._file_layer import FileLayer
from emberward.sources.script._group import LockStepGroup
from emberward.sources.script._guard import Guard, chain_of, cuda_behind, limit_behind
from emberward.sources.script._job import ScriptFolder, ScriptJob, StoppedAt
from emberward.sources.script._link import FreeEnough, Link
from emberward.sources.script._redirected import Redirected
from emberward.sources.script._rename import stand_in_for_renames
from emberward.sources.script._sandbox import Sandbox
from emberward.sources.script._stand_ins import (
    StepsDone,
    pass_on,
    raise_as_torch,
    stand_in,
    stand_in_for_native_files,
)
from emberward.sources.script._statements import StatementRecorder

STOP_SIGNAL = signal.SIGRTMAX - 1
"""Asks a rank to end, and a process that it forked where it is; no library that we know uses it."""
WORKER_LIMIT_S = 1.0
"""How long data workers are watched: they say where they are, and whether they run."""
BLOCKED_SHARE = 0.05
"""A process that used less of the time than this did not run."""
_LOADER = str(Path(torch.__file__).parent / "utils" / "data" / "dataloader.py")
_OWN_FOLDER = str(Path(__file__).parents[2])
_STAND_INS = tuple(str(Path(__file__).with_name(name)) for name in ("_cuda.py", "_driver.py", "_stand_ins.py"))
_sleep = time.sleep


class Stopped(BaseException):
    """Ends a rank that is asked to stop."""


def run_rank(folder: ScriptFolder, job: ScriptJob, rank: int, pipe: Connection, sandbox: Sandbox) -> None:
    """Runs the script as `rank` and leaves the process."""
    code = 1
    try:
        _Examinee(folder, job, rank, pipe, sandbox).run()
        code = 0
    except BaseException:  # noqa: BLE001 (the log is all that is left to say it in)
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class _Examinee:
    """One rank of the examined script."""

    def __init__(self, folder: ScriptFolder, job: ScriptJob, rank: int, pipe: Connection, sandbox: Sandbox) -> None:
        self.folder = folder
        self.job = job
        self.rank = rank
        self.sandbox = sandbox
        self.link = Link(pipe)
        script = Path(job.folder, job.script).resolve()
        self.finder = SiteFinder(roots=(script.parent, Path(job.folder)), program=lambda: package_of(str(script)))
        self.tape = Tape(rank, find_site=self.finder.here, transport=Transport.GLOO)
        self.link.find_site = self._freed
        self.statements = StatementRecorder(self.finder, lambda: len(self.tape))
        self.place: StoppedAt | None = None
        self.num_sleeps = 0
        self.num_steps = 0
        self.is_cuda_played = False
        self._pid = os.getpid()

    def run(self) -> None:
        """Runs the script to its end, writes the trace and says how it ended."""
        self._enter()
        end: dict[str, Any] = {"status": "done"}
        try:
            with self._world():
                self.statements.start()
                runpy.run_path(self.job.script, run_name="__main__")
                threading._shutdown()  # type: ignore[attr-defined]  # what Python itself does at its end
                atexit._run_exitfuncs()
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                end = self._raised(leaving)
        except StepsDone:
            end = {"status": "cut"}
        except (Stopped, FreeEnough):
            end = {"status": "stopped"}
        except BaseException as error:  # noqa: BLE001 (a user's program may raise anything)
            end = self._raised(error)
        finally:
            self.statements.stop()
        self._write(end)

    def _enter(self) -> None:
        os.chdir(self.job.folder)
        descriptor = os.open(self.folder.log(self.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        sys.argv = [self.job.script, *self.job.arguments]
        sys.path.insert(0, str(Path(self.job.script).resolve().parent))
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        # Processes that torchrun starts draw their own seeds; a fork would draw its parent's.
        random.seed()
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed()

    @contextlib.contextmanager
    def _world(self) -> Iterator[None]:
        """The world of the script: our group, no sleep, no effects outside, CUDA played where there is none."""
        signal.signal(STOP_SIGNAL, self._on_stop)
        recorder = Recorder(self.tape)
        LockStepGroup.link, LockStepGroup.recorder, LockStepGroup.waited_by_backward = self.link, recorder, []
        LockStepGroup.tape = self.tape
        guard = Guard(
            log=self.folder.refusals,
            began_s=time.time(),
            find_site=self.finder.here,
            only_folder=None if self.sandbox.is_there else self.folder.path,
        )
        guard.install()
        if not self.sandbox.is_there:
            layer = FileLayer(self.folder.path / "files", kept=self.folder.path)
            Redirected(layer).install()
            stand_in_for_native_files(layer)
        stand_in_for_renames(self.sandbox.points)
        self.tape.mark(Phase(step=0))
        with recorder.recording(), cuda_is_cpu(self.job.num_ranks) as self.is_cuda_played, observing(self.tape):
            stand_in(self)
            yield

    def _freed(self) -> Site | None:
        self.statements.mark_free()
        return self.finder.here()

    def slept(self) -> None:
        """Counts a sleep that was skipped."""
        self.num_sleeps += 1

    def stepped(self) -> None:
        """Counts optimizer steps, which are the phases of the trace, and ends the rank after the last one wanted."""
        self.num_steps += 1
        self.tape.mark(Phase(step=self.num_steps))
        if self.job.max_steps is not None and self.num_steps >= self.job.max_steps:
            raise StepsDone

    # -- how it ends -------------------------------------------------------------------------------------------------

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        del number
        if os.getpid() != self._pid:
            site, _ = self._sites(frame)
            self.folder.worker(os.getpid()).write_text(json.dumps(site), encoding="utf-8")
            return
        if not self.link.is_waiting:
            self.place = self._place(frame)
        raise Stopped

    def _sites(self, frame: FrameType | None) -> tuple[str | None, str | None]:
        """The user's innermost line, and the user's line that asks the data loader, if one is being asked."""
        site = loader = None
        is_loading = False
        while frame is not None:
            found = self.finder.of(frame)
            is_loading = is_loading or frame.f_code.co_filename == _LOADER
            if found is not None:
                site = site or str(found)
                if is_loading and loader is None and frame.f_code.co_filename != _LOADER:
                    loader = str(found)
            frame = frame.f_back
        return site, loader

    def _place(self, frame: FrameType | None) -> StoppedAt:
        site, loader = self._sites(frame)
        idle_s, busy_s = self.link.since_last_call()
        children = multiprocessing.active_children()
        workers = [child.pid for child in children if child.pid is not None]
        before = sum(map(_ticks, workers))
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, STOP_SIGNAL)
        end_s = time.monotonic() + WORKER_LIMIT_S
        while workers and time.monotonic() < end_s:
            _sleep(0.05)
        ran_s = (sum(map(_ticks, workers)) - before) / os.sysconf("SC_CLK_TCK")
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises what becomes of workers
        for child in children:
            child.kill()  # a loader waits for its workers when it is left
        lines = [self.folder.worker(pid) for pid in workers]
        found = [json.loads(path.read_text(encoding="utf-8") or "null") for path in lines if path.exists()]
        return StoppedAt(
            site=site,
            loader_site=loader,
            workers=tuple(dict.fromkeys(line for line in found if line is not None)),
            idle_s=idle_s,
            is_blocked=busy_s < BLOCKED_SHARE * idle_s and ran_s <= WORKER_LIMIT_S * BLOCKED_SHARE,
        )

    def _raised(self, error: BaseException) -> dict[str, Any]:
        site = self._site_of(error)
        limit = limit_behind(error, tuple(self.sandbox.read_only))
        if limit is None and self.is_cuda_played:
            limit = cuda_behind(error)
        is_ours = any(map(_is_ours, chain_of(error)))
        status = "ours" if is_ours else "refused" if limit is not None else "raised"
        return {
            "status": status,
            "error": limit or f"{type(error).__name__}: {error}",
            "site": None if site is None else str(site),
            "traceback": "".join(traceback.format_exception(error))[-4000:],
        }

    def _site_of(self, error: BaseException) -> Site | None:
        for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
            found = self.finder.of(frame)
            if found is not None:
                return Site(file=found.file, line=line)
        return None

    def _write(self, end: dict[str, Any]) -> None:
        signal.signal(STOP_SIGNAL, signal.SIG_IGN)
        events = self.tape.events()
        trace = Trace(world_size=self.job.num_ranks, events={self.rank: events}, observer=Observer.DRY_RUN)
        write_trace(trace, self.folder.trace(self.rank))
        self.statements.write(self.folder.statements(self.rank), self.tape.numbers())
        self.link.end(
            {
                "rank": self.rank,
                "num_steps": self.num_steps,
                "error": None,
                "site": None,
                "traceback": None,
                **end,
                "is_free": self.link.is_free,
                "place": None if self.place is None else asdict(self.place),
                "not_recorded": list(self.tape.not_recorded),
                "num_sleeps": self.num_sleeps,
                "waited_at": self.link.freed_at,
            }
        )


def _is_ours(error: BaseException) -> bool:
    """Whether our own code raised it, or what that called for itself and not for the script.

    Recursion without end may reach its limit in the function that records statements; it is the script's all the same.
    So is what a function on files says of a file, and what another process ended with.
    """
    if isinstance(error, BackendError | RecursionError) or (
        isinstance(error, OSError) and not isinstance(error, ConnectionError)
    ):
        return False
    codes = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = [code for code in codes if code.co_filename.startswith(_OWN_FOLDER)]
    if not own or own[-1] in (pass_on.__code__, raise_as_torch.__code__):
        return False
    return own[-1] is codes[-1] or own[-1].co_filename in _STAND_INS


def _ticks(pid: int) -> int:
    """Processor time of a process, in clock ticks; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])
