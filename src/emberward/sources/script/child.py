"""Examines a script: ``python -m emberward.sources.script.child FOLDER``; `_job.py` says what lies in the folder.

Imports torch once, then forks: a process in a view of the machine of its own (`_sandbox.py`), which is the lock-step
server, and
from it one process a rank. ``--serve`` reads folders from standard input, one a line, examines each in a process of its
own, and answers each with its name.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from emberward.sources.script._examinee import STOP_SIGNAL, run_rank
from emberward.sources.script._guard import read_refusals
from emberward.sources.script._job import RankEnd, ScriptFolder, ScriptJob
from emberward.sources.script._lock_step import LockStep
from emberward.sources.script._programs import LOCKS, NO_LOCKS, provide
from emberward.sources.script._sandbox import NoSandboxError, Sandbox, run_inside

STOP_S = 5.0
"""Time a rank has to write its trace after it was asked to stop."""


def main(arguments: Sequence[str]) -> int:
    """Examines the job of the folder and writes the answer there. Blocks, at most its time limit and a little."""
    gc.freeze()  # what is here stays: a collector that looked through it would copy it into every rank
    if list(arguments) == ["--serve"]:
        return _serve()
    return _examine(ScriptFolder(path=Path(arguments[0])))


def _serve() -> int:
    """Examines what standard input names until it ends: a JSON object a line with `folder`, `environment`."""
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.environ.clear()
                os.environ.update(order["environment"])
                code = _examine(ScriptFolder(path=Path(order["folder"])))
            finally:
                os._exit(code)
        os.waitpid(pid, 0)
        os.write(1, f"{order['folder']}\n".encode())
    return 0


def _examine(folder: ScriptFolder) -> int:
    job = folder.read_job()
    try:
        try:
            return run_inside(folder.layers, folder.path, lambda sandbox: _work(folder, job, sandbox, None))
        except NoSandboxError as error:
            problem = str(error)
        # Outside of the handler: no error of the script shall have ours as its context.
        temporary = folder.path / "tmp"
        temporary.mkdir()
        os.environ.update({name: str(temporary) for name in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")})
        return _work(folder, job, Sandbox(is_there=False), problem)
    finally:
        shutil.rmtree(folder.layers, ignore_errors=True)


def _work(folder: ScriptFolder, job: ScriptJob, sandbox: Sandbox, no_sandbox: str | None) -> int:
    """Starts the ranks, serves them to their end, and writes the answer."""
    began_s = time.monotonic()
    pipes: dict[int, multiprocessing.connection.Connection] = {}
    pids: dict[int, int] = {}
    provide(folder.programs, num_devices=job.num_ranks)
    for rank in range(job.num_ranks):
        ours, theirs = multiprocessing.Pipe()
        pid = os.fork()
        if pid == 0:
            for other in (*pipes.values(), ours):
                other.close()
            os.environ.update({**_torchrun_variables(job, rank), **_helper_variables(folder, sandbox)})
            run_rank(folder, job, rank, theirs, sandbox)
        theirs.close()
        pipes[rank], pids[rank] = ours, pid
    lock_step = LockStep(pipes, time_limit_s=job.time_limit_s)
    lock_step.run()
    codes = _stop(pids, lock_step)
    _answer(folder, job, lock_step, codes, seconds=time.monotonic() - began_s, no_sandbox=no_sandbox)
    return 0


def _torchrun_variables(job: ScriptJob, rank: int) -> dict[str, str]:
    """What torchrun gives a worker (torch 2.13, distributed/elastic/agent/server/local_elastic_agent.py)."""
    size = str(job.num_ranks)
    own = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank))
    sizes = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), size)
    return {
        **own,
        **sizes,
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }


def _helper_variables(folder: ScriptFolder, sandbox: Sandbox) -> dict[str, str]:
    """What lets helper programs be answered where CUDA is played, and be read without a view of the machine."""
    path = f"{folder.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {
        **({} if torch.cuda.is_available() else {"PATH": path}),
        **({} if sandbox.is_there else {LOCKS: NO_LOCKS}),
    }


def _stop(pids: dict[int, int], lock_step: LockStep) -> dict[int, int]:
    """The exit code of each rank that ended by itself; asks the others to end, then kills them."""
    codes: dict[int, int] = {}
    left = _left(pids, codes)
    for pid in left.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, STOP_SIGNAL)
    end_s = time.monotonic() + STOP_S
    while left and time.monotonic() < end_s:
        lock_step.serve_once(0.05)
        left = _left(left, codes)
    for pid in left.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # What the kernel still holds after that is ended by whoever owns this process.
    end_s = time.monotonic() + STOP_S
    while (left := _left(left, {})) and time.monotonic() < end_s:
        time.sleep(0.01)
    lock_step.serve_once(0.0)
    return codes


def _left(pids: dict[int, int], codes: dict[int, int]) -> dict[int, int]:
    """Those that have not ended; notes how the others did."""
    left = {}
    for rank, pid in pids.items():
        try:
            found, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if found == pid:
            codes[rank] = os.waitstatus_to_exitcode(status)
        else:
            left[rank] = pid
    return left


def _how(code: int | None) -> str:
    """What is known of a process that ended without a message."""
    if code is None:
        return "the process did not end when it was asked"
    return (
        f"the process was ended by {signal.Signals(-code).name}" if code < 0 else f"the process left with code {code}"
    )


def _answer(
    folder: ScriptFolder,
    job: ScriptJob,
    lock_step: LockStep,
    codes: dict[int, int],
    *,
    seconds: float,
    no_sandbox: str | None,
) -> None:
    ends, num_sleeps, waiting = [], 0, {}
    for rank in range(job.num_ranks):
        end = lock_step.ranks[rank].end
        if end is None:
            code = codes.get(rank)
            status = "stopped" if code is None else "died"
            ends.append(asdict(RankEnd(rank=rank, status=status, error=_how(code))))
            continue
        ends.append({name: end[name] for name in RankEnd.__slots__})
        num_sleeps += end["num_sleeps"]
        if end["waited_at"] is not None:
            waiting[rank] = end["waited_at"]
    folder.write_result(
        {
            "halt": None if lock_step.halt is None else lock_step.halt.value,
            "ends": ends,
            "waiting": waiting,
            "refused": read_refusals(folder.refusals),
            "num_sleeps": num_sleeps,
            "seconds": seconds,
            "no_sandbox": no_sandbox,
        }
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
