"""Runs the ranks of a dry run's folder. See `sources` [Note: a dry run's folder].

One process imports torch, then forks a child for each rank: an import costs seconds, a fork does not.
"""

import gc
import os
import sys
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from emberward.findings import FACTS, ConfigError
from emberward.rank._dry import dry_run, site_finder
from emberward.rank._rehearsal import Script, script_of
from emberward.recipe import read_resolved
from emberward.sources import DryJob, JobFolder, RankError


def run_job(path: Path) -> int:
    """Runs every rank of the job in `path`, at most `num_workers` at a time, and returns the exit code. Blocks."""
    folder = JobFolder(path=path)
    job = folder.read_job()
    resolved = read_resolved(folder.recipe)
    script = script_of(resolved.recipe, resolved.batch, job.eval_samples)
    warnings.filterwarnings("ignore", module="torch")
    # Costs a second once here, or once in each child.
    import torch._dynamo  # noqa: F401

    # The children share what is here as long as nobody writes to it, as the collector does when it looks.
    gc.freeze()
    gc.enable()
    waiting = list(job.ranks)
    running: dict[int, int] = {}
    while waiting or running:
        while waiting and len(running) < job.num_workers:
            rank = waiting.pop(0)
            running[_fork(folder, job, script, rank)] = rank
        pid, _ = os.wait()
        running.pop(pid, None)
    return 0


def _fork(folder: JobFolder, job: DryJob, script: Script, rank: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _one(folder, job, script, rank)
        code = 0
    except BaseException as error:  # noqa: BLE001 (however a rank ends is the answer)
        folder.write_error(_error_of(rank, error))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _one(folder: JobFolder, job: DryJob, script: Script, rank: int) -> None:
    done = dry_run(script, rank, transport=job.transport)
    folder.write_program(done.program, torch_version=torch.__version__)
    folder.write_events(rank, done.events)


def _error_of(rank: int, error: BaseException) -> RankError:
    finder = site_finder()
    site = next(
        (
            replace(found, line=line)
            for frame, line in reversed(list(traceback.walk_tb(error.__traceback__)))
            if (found := finder.of(frame)) is not None
        ),
        None,
    )
    return RankError(
        rank=rank,
        type=type(error).__name__,
        message=str(error),
        site=None if site is None else str(site),
        traceback="".join(traceback.format_exception(error)),
        refusal={name: getattr(error, name) for name in FACTS} if isinstance(error, ConfigError) else None,
    )
