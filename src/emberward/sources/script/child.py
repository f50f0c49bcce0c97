"""Examines a script: ``python -m emberward.sources.script.child FOLDER``; `_job.py` tells what lies in the folder.

Imports torch once, forks one process a rank, and serves them as the crew.
"""

import contextlib
import multiprocessing
import os
import runpy
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch._dynamo  # DDP imports it: once here, not in each rank, and before anything is replaced
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d
from torch.optim.optimizer import register_optimizer_step_post_hook

from emberward.events import Observer, Phase, Site, Trace, write_trace
from emberward.sources._site import SiteFinder
from emberward.sources._tape import Tape, Transport
from emberward.sources.recorder import Recorder
from emberward.sources.script._crew import Crew
from emberward.sources.script._cuda import cuda_is_cpu
from emberward.sources.script._group import BACKEND, CrewGroup, FreeEnough, Link, register_backend
from emberward.sources.script._guard import Guard
from emberward.sources.script._job import ScriptFolder, ScriptJob

STOP_S = 5.0
"""Time a rank has to write its trace after it was told to stop."""


class Stopped(BaseException):
    """Ends a rank that is told to stop."""


class StepsDone(BaseException):
    """Ends a rank after its last optimizer step that is examined."""


def main(arguments: Sequence[str]) -> int:
    """Examines the job of the folder and writes the answer there. Blocks, at most its time limit and a little."""
    folder = ScriptFolder(path=Path(arguments[0]))
    job = folder.read_job()
    began_s = time.monotonic()
    pipes: dict[int, Connection] = {}
    pids: dict[int, int] = {}
    for rank in range(job.num_ranks):
        ours, theirs = multiprocessing.Pipe()
        pid = os.fork()
        if pid == 0:
            for other in (*pipes.values(), ours):
                other.close()
            _rank(folder, job, rank, theirs)
        theirs.close()
        pipes[rank], pids[rank] = ours, pid
    crew = Crew(pipes, time_limit_s=job.time_limit_s)
    crew.run()
    _stop(pids, crew)
    _answer(folder, job, crew, time.monotonic() - began_s)
    return 0


def _stop(pids: dict[int, int], crew: Crew) -> None:
    """Ends the ranks that are left: asks, then kills. Their last words are read where they come."""
    left = {rank: pid for rank, pid in pids.items() if not _has_ended(pid)}
    for pid in left.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    end_s = time.monotonic() + STOP_S
    while left and time.monotonic() < end_s:
        crew.serve_once(0.05)
        left = {rank: pid for rank, pid in left.items() if not _has_ended(pid)}
    for pid in left.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _answer(folder: ScriptFolder, job: ScriptJob, crew: Crew, seconds: float) -> None:
    ends, refused, num_sleeps, waiting = [], list[str](), 0, {}
    for rank in range(job.num_ranks):
        end = crew.ranks[rank].end
        if end is None:
            ends.append({"rank": rank, "status": "died", "error": "the process ended without a word"})
            continue
        ends.append({name: end.get(name) for name in ("rank", "status", "num_steps", "error", "site", "traceback")})
        refused += [line for line in end["refused"] if line not in refused]
        num_sleeps += end["num_sleeps"]
        if end["waited_at"] is not None:
            waiting[rank] = end["waited_at"]
    folder.write_result(
        {
            "halt": None if crew.halt is None else crew.halt.value,
            "ends": ends,
            "waiting": waiting,
            "refused": refused,
            "num_sleeps": num_sleeps,
            "seconds": seconds,
        }
    )


# -- inside a rank ---------------------------------------------------------------------------------------------------


def _rank(folder: ScriptFolder, job: ScriptJob, rank: int, pipe: Connection) -> None:
    """Runs the script as `rank` and leaves the process."""
    code = 1
    try:
        _Examinee(folder, job, rank, pipe).run()
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

    def __init__(self, folder: ScriptFolder, job: ScriptJob, rank: int, pipe: Connection) -> None:
        self.folder = folder
        self.job = job
        self.rank = rank
        self.link = Link(pipe)
        self.finder = SiteFinder(roots=(folder.work.resolve(),), skip=(Path(__file__).parents[2],))
        self.tape = Tape(rank, find_site=self.finder.here, transport=Transport.GLOO)
        self.link.find_site = self.finder.here
        self.refused: list[str] = []
        self.num_sleeps = 0
        self.num_steps = 0

    def run(self) -> None:
        """Runs the script to its end, writes the trace and says the last word."""
        self._enter_folder()
        end: dict[str, Any] = {"status": "done"}
        try:
            with self._world():
                runpy.run_path(self.job.script, run_name="__main__")
        except SystemExit as leaving:
            if leaving.code not in (None, 0):
                end = self._raised(leaving)
        except StepsDone:
            end = {"status": "cut"}
        except (Stopped, FreeEnough):
            end = {"status": "stopped"}
        except BaseException as error:  # noqa: BLE001 (a user's program may raise anything)
            end = self._raised(error)
        self._write(end)

    def _enter_folder(self) -> None:
        os.chdir(self.folder.work)
        temporary = self.folder.path / "tmp"
        temporary.mkdir(exist_ok=True)
        os.environ.update(
            RANK=str(self.rank),
            LOCAL_RANK=str(self.rank),
            WORLD_SIZE=str(self.job.num_ranks),
            LOCAL_WORLD_SIZE=str(self.job.num_ranks),
            GROUP_RANK="0",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT="29500",
            TMPDIR=str(temporary),
        )
        descriptor = os.open(self.folder.log(self.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        sys.argv = [self.job.script, *self.job.arguments]
        sys.path.insert(0, str(self.folder.work))
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)

    @contextlib.contextmanager
    def _world(self) -> Iterator[None]:
        """The world of the script: our group, no sleep, no effects outside, CUDA played where there is none."""
        signal.signal(signal.SIGUSR1, self._on_stop)
        guard = Guard((self.folder.path,), say=self.refused.append)
        recorder = Recorder(self.tape)
        CrewGroup.link, CrewGroup.recorder, CrewGroup.waited_by_backward = self.link, recorder, []
        register_backend()
        dist.init_process_group = distributed_c10d.init_process_group = self._init(distributed_c10d.init_process_group)
        distributed_c10d._new_group_with_tag = self._new_group(distributed_c10d._new_group_with_tag)
        torch.autograd.backward = self._backward(torch.autograd.backward)
        time.sleep = self._sleep  # type: ignore[assignment]
        torch.save = self._save(torch.save, guard)
        self._count_steps()
        guard.install()
        with recorder.recording(), cuda_is_cpu(self.job.num_ranks):
            yield

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        raise Stopped

    def _sleep(self, seconds: float) -> None:
        del seconds
        self.num_sleeps += 1

    def _init(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(backend: str | None = None, *args: Any, **named: Any) -> Any:
            del args
            if backend is not None and "nccl" in str(backend):
                self.tape.transport = Transport.NCCL
            kept = {name: named[name] for name in ("timeout", "group_name") if name in named}
            store = HashStore()
            return original(BACKEND, store=store, rank=self.rank, world_size=self.job.num_ranks, **kept)

        return wrapper

    @staticmethod
    def _new_group(original: Callable[..., Any]) -> Callable[..., Any]:
        """Sub-groups go through the crew too, whatever backend the script names for them."""

        def wrapper(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **named: Any) -> Any:
            del backend
            named.pop("device_id", None)
            named.pop("backend_options", None)
            return original(ranks, timeout, None, *args, **named)

        return wrapper

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The backward, and after it the waits that DDP's reducer makes at its end."""

        def wrapper(*args: Any, **named: Any) -> Any:
            answer = original(*args, **named)
            for work in CrewGroup.waited_by_backward:
                CrewGroup.recorder.waited(work)
            CrewGroup.waited_by_backward.clear()
            return answer

        return wrapper

    def _save(self, original: Callable[..., Any], guard: Guard) -> Callable[..., Any]:
        def wrapper(obj: Any, f: Any, *args: Any, **named: Any) -> Any:
            if isinstance(f, str | os.PathLike):
                guard.require_inside(f)
            return original(obj, f, *args, **named)

        return wrapper

    def _count_steps(self) -> None:
        """Counts optimizer steps, which are the phases of the trace, and ends the rank after the last one wanted."""
        most = self.job.max_steps

        def after(optimizer: Any, args: Any, named: Any) -> None:
            del optimizer, args, named
            self.num_steps += 1
            self.tape.mark(Phase(step=self.num_steps))
            if most is not None and self.num_steps >= most:
                raise StepsDone

        self.tape.mark(Phase(step=0))
        register_optimizer_step_post_hook(after)

    def _raised(self, error: BaseException) -> dict[str, Any]:
        site = self._site_of(error)
        return {
            "status": "raised",
            "error": f"{type(error).__name__}: {error}",
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
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        events = self.tape.events()
        trace = Trace(world_size=self.job.num_ranks, events={self.rank: events}, observer=Observer.DRY_RUN)
        write_trace(trace, self.folder.trace(self.rank))
        self.link.end(
            {
                "rank": self.rank,
                "num_steps": self.num_steps,
                "error": None,
                "site": None,
                "traceback": None,
                **end,
                "refused": self.refused,
                "num_sleeps": self.num_sleeps,
                "waited_at": self.link.freed_at,
            }
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
