"""One set of rank processes that stays alive and runs many cases: starting torch costs seconds, a case does not.

They are forked from one process that has torch loaded, which costs those seconds once.

A case is a module-level function ``f(rank, world_size, **arguments)`` that runs on ranks 0..n-1 with the default gloo
group initialised for exactly n ranks, and returns something that pickles.
"""

import contextlib
import gc
import importlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from warm import RANK, TORCH

CASE_TIMEOUT_S = 120.0 * float(os.environ.get("EMBERWARD_TEST_PATIENCE", "1"))
"""On a machine that is busy with other things EMBERWARD_TEST_PATIENCE=10 gives each case ten times as long."""
AFTERMATH_S = 5.0


class RankError(AssertionError):
    """A rank raised; carries all tracebacks."""


def _serve(rank: int, pipe: Connection) -> None:
    """A rank's loop: initialises the group for each case, runs it, answers."""
    gc.freeze()  # what all ranks share is never looked through, or each would copy it
    os.environ["OMP_NUM_THREADS"] = "1"
    import warnings

    import torch
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    while (message := pipe.recv()) is not None:
        module, name, world_size, store, arguments = message
        try:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{store}",
                rank=rank,
                world_size=world_size,
                timeout=timedelta(seconds=CASE_TIMEOUT_S / 2),
            )
            dist.barrier()  # a case may end its group at once, while a peer still connects: "Connection closed by peer"
            case = getattr(importlib.import_module(module), name)
            pipe.send((True, case(rank, world_size, **arguments)))
            if dist.is_initialized():
                with contextlib.suppress(RuntimeError):  # a peer that failed has left, and has said so
                    dist.barrier()  # a peer may still connect a group of its own, and would lose it
        except BaseException:  # noqa: BLE001 (a rank's every failure is the test's to show)
            pipe.send((False, traceback.format_exc()))
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


class RankPool:
    """Processes for up to `num_ranks` ranks, started when first needed."""

    def __init__(self, num_ranks: int, folder: Path) -> None:
        self._num_ranks = num_ranks
        self._folder = folder
        self._ranks: list[tuple[Any, Connection]] = []
        self._num_cases = 0

    def _start(self) -> None:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch when it is imported, once for all ranks
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*TORCH, *RANK])
        for rank in range(self._num_ranks):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, theirs), daemon=True)
            process.start()
            theirs.close()
            self._ranks.append((process, ours))

    def run(self, case: Callable[..., Any], world_size: int, **arguments: Any) -> list[Any]:
        """What `case` returned on each rank. Raises RankError with every traceback when one failed."""
        if not self._ranks:
            self._start()
        self._num_cases += 1
        store = self._folder / f"store-{self._num_cases}"
        try:
            return self._answers((case.__module__, case.__name__, world_size, str(store), arguments), world_size)
        except BaseException:
            # [Note: fresh ranks after a failure]
            # torch numbers its groups, and starts anew only when a default group is ended. One that failed to begin is
            # not: that rank's next group has another name than its peers', and no case after it would ever connect. An
            # answer left in a pipe, or a dead rank, would spoil the next case as well.
            self.close()
            raise

    def _answers(self, message: tuple[Any, ...], world_size: int) -> list[Any]:
        used = self._ranks[:world_size]
        for _, pipe in used:
            pipe.send(message)
        answers: dict[int, Any] = {}
        failures: list[str] = []
        waiting = {pipe: rank for rank, (_, pipe) in enumerate(used)}
        while waiting:
            # Once a rank has failed the others may wait for it in a collective: they get a moment to fail as well.
            ready = wait(list(waiting), timeout=AFTERMATH_S if failures else CASE_TIMEOUT_S)
            if not ready:
                raise RankError(f"ranks {sorted(waiting.values())} did not answer\n" + "\n".join(failures))
            for pipe in ready:
                assert isinstance(pipe, Connection)
                rank = waiting.pop(pipe)
                try:
                    is_right, answer = pipe.recv()
                except EOFError:
                    used[rank][0].join(timeout=AFTERMATH_S)
                    is_right, answer = False, f"ended with exit code {used[rank][0].exitcode}"
                if is_right:
                    answers[rank] = answer
                else:
                    failures.append(f"rank {rank}:\n{answer}")
        if failures:
            raise RankError("\n".join(failures))
        return [answers[rank] for rank in range(world_size)]

    def close(self) -> None:
        """Ends the processes; the next case starts new ones."""
        for _, pipe in self._ranks:
            with contextlib.suppress(OSError):
                pipe.send(None)
        end = time.monotonic() + AFTERMATH_S
        for process, pipe in self._ranks:
            pipe.close()
            process.join(timeout=max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(timeout=5)
        self._ranks = []
