"""Starts the sampler in a process that trains. Loaded by the start-up file of `attach` when torch is there.

A process that never ends a step (a launcher, a data worker, a compiler) is left as it is: one hook of torch's own waits
in it. The ring comes with the first step where ``init_process_group`` has not brought it.
"""

import atexit
import builtins
import contextlib
import functools
import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from emberward.events import Owner, main_package, owner_of
from emberward.sources._alike import NUM_COMPARED
from emberward.sources._backward_steps import BackwardSteps
from emberward.sources._gradients import watch_making
from emberward.sources._live import CURRENT, LiveRecorder
from emberward.sources._marks import mark_steps
from emberward.sources._operations import NUM_STEPS, OPERATIONS_SUFFIX, OperationProbe
from emberward.sources._sampler import Sampler
from emberward.sources._tables import watch_tables
from emberward.sources._turns import TurnWatch
from emberward.sources.attach import LENS_VARIABLE, LENS_WINDOW_VARIABLE, RING_VARIABLE
from emberward.sources.peak import usable_cores
from emberward.sources.recorder import attach, identify_now
from emberward.sources.ring import SUFFIX

LENS_SUFFIX = ".lens"


class _Lens:
    """The one of this process. `sampler` is made at the first step."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.sampler: Sampler | None = None
        self.turns: TurnWatch | None = None
        self.probe: OperationProbe | None = None
        self.is_off = False
        self.num_ended = 0
        self.warmup = 0
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self.sampler, self.turns, self.is_off = None, None, True

    def watch_turns(self) -> None:
        """Until a step ends, the turns of the program's loop may be the steps. See [Note: turns of the loop]."""
        program = getattr(sys.modules.get("__main__"), "__file__", None)
        if program is None or owner_of(program, main_package()) is not Owner.USER:
            return
        warmup, _, number = self.environment.get(LENS_WINDOW_VARIABLE, "5:50").partition(":")

        def at_end() -> None:
            _keep_ring(self._path().with_suffix(SUFFIX))

        named = {"warmup": int(warmup), "num_steps": int(number)}
        self.turns = TurnWatch(
            self._path, head=lambda: {**_head(), "by_turns": True}, flag=_flag, at_end=at_end, **named
        )
        atexit.register(self.turns.end)

    def _path(self) -> Path:
        rank = None if CURRENT.live is None else CURRENT.live.writer.identity.rank
        return Path(self.environment[LENS_VARIABLE]) / f"rank{rank or 0:05d}-{os.getpid()}{LENS_SUFFIX}"

    def stepped(self) -> None:
        """A step has ended. Never raises."""
        if self.is_off:
            return
        try:
            if self.sampler is None:
                self._begin()
            self._observe()
            if self.sampler is not None:
                self.sampler.stepped()
        except Exception as error:  # noqa: BLE001 (a program is not ended because it is profiled)
            self.is_off = True
            if CURRENT.live is not None:
                CURRENT.live.problem("steps not sampled", error)
                _keep_ring(self._path().with_suffix(SUFFIX))

    def _observe(self) -> None:
        """Steps that the probe observes lie between the warm-up, whose last it compares, and those that are sampled."""
        self.num_ended += 1
        if self.probe is None:
            return
        if self.num_ended == self.warmup:
            self.probe.start()
        elif self.num_ended == max(self.warmup - NUM_COMPARED, 1):
            self.probe.compare()
        else:
            self.probe.stepped()

    def _begin(self) -> None:
        rings = self.environment.get(RING_VARIABLE)
        if CURRENT.live is None and rings:
            attach(rings, self.environment, (), {})
            identify_now()
        _name_alone(CURRENT.live)
        if self.turns is not None:
            self.turns.dismiss()
        warmup, _, number = self.environment.get(LENS_WINDOW_VARIABLE, "5:50").partition(":")
        self.warmup = int(warmup)
        live, path = CURRENT.live, self._path()
        plain = builtins.print, logging.Logger.handle

        def at_end() -> None:
            builtins.print, logging.Logger.handle = plain  # type: ignore[method-assign]
            _keep_ring(path.with_suffix(SUFFIX))

        probe = self.probe = OperationProbe(path.with_suffix(OPERATIONS_SUFFIX), head=_head)
        self.sampler = Sampler(
            path,
            warmup=self.warmup + NUM_STEPS + (not _is_alone(live)),
            num_steps=int(number),
            head=_head,
            flag=_flag,
            at_end=at_end,
            after=probe.write,
            retries=_retries,
        )
        _watch_output(self.sampler)
        atexit.register(self.sampler.end)


def _name_alone(live: LiveRecorder | None) -> None:
    """A process that trains alone and was given no rank is rank 0 of 1: a ring without a rank tells of no calls."""
    if live is not None and live.writer.identity.rank is None:
        live.writer.identify(replace(live.writer.identity, rank=0, world_size=1), transport="gloo")


def _is_alone(live: LiveRecorder | None) -> bool:
    """Whether no other rank could be waited for in the step after the observed ones, until its profiler has ended."""
    return live is None or (live.writer.identity.world_size or 1) == 1


def start(environment: Mapping[str, str]) -> None:
    """Waits for the first step of this process. Called once, with torch loaded."""
    lens = _Lens(environment)
    CURRENT.stepped = lens.stepped

    def ended(optimizer: Any, args: Any, named: Any) -> None:
        del args, named
        if torch.compiler.is_compiling() or lens.is_off:
            return
        if _is_counted(CURRENT.live, optimizer, lens):
            lens.stepped()

    def ended_backward() -> None:
        if not lens.is_off and (CURRENT.live is None or not CURRENT.live.steps.is_told):
            lens.stepped()

    lens.watch_turns()
    watch_making()
    watch_tables()
    register_optimizer_step_post_hook(ended)
    mark_steps()
    BackwardSteps(ended_backward).start()


def _is_counted(live: LiveRecorder | None, optimizer: object, lens: _Lens) -> bool:
    """Whether the optimizer's steps are the steps; the recorder knows, where it is there."""
    if live is None:
        return lens.sampler is None
    return not live.steps.is_told and live.is_counted(optimizer)


def _flag() -> str:
    live = CURRENT.live
    return "eval" if live is not None and live.steps.evaluation is not None else ""


def _head() -> dict[str, Any]:
    live = CURRENT.live
    identity = None if live is None else live.writer.identity
    has_device = _has_device()
    return {
        "rank": 0 if identity is None or identity.rank is None else identity.rank,
        "world_size": None if identity is None else identity.world_size,
        "device": "cuda" if has_device else "cpu",
        "device_name": torch.cuda.get_device_name() if has_device else "cpu",
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "checks_calls": _checks_calls(),
    }


def _checks_calls() -> bool:
    """Whether each collective is compared between ranks first (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""
    parts: Any = torch.distributed
    return bool(parts.is_available() and parts.get_debug_level() == parts.DebugLevel.DETAIL)


def _has_device() -> bool:
    is_initialized: Any = torch.cuda.is_initialized
    return torch.cuda.is_available() and bool(is_initialized())


def _retries() -> int:
    """How often the device's allocator had to free its cache and try again (torch/cuda/memory.py, `memory_stats`)."""
    return int(torch.cuda.memory_stats().get("num_alloc_retries", 0)) if _has_device() else 0


def _keep_ring(to: Path) -> None:
    """Copies the ring as it is now: later steps push the calls of those that were sampled out of it."""
    live = CURRENT.live
    if live is not None:
        with contextlib.suppress(OSError):
            shutil.copyfile(live.writer.path, to)


def _watch_output(sampler: Sampler) -> None:
    """Notes the lines that print or log something, so that strings which nobody reads are known."""
    builtins.print = _telling(builtins.print, sampler)
    handle: Any = logging.Logger.handle
    logging.Logger.handle = _telling(handle, sampler)  # type: ignore[method-assign]


def _telling(original: Callable[..., Any], sampler: Sampler) -> Callable[..., Any]:
    @functools.wraps(original)
    def tell(*args: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling():
            sampler.output(sys._getframe(1))
        return original(*args, **named)

    return tell
