"""Answers what a person asks of a running job, from this rank's memory alone. See `runs` [Note: inspections]."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

import torch
from torch import Tensor

from emberward.checkpoint import DType, Part
from emberward.engine import Engine, ParameterPart
from emberward.lanes import Lane, lane
from emberward.rank._signals import SWITCH_EVERY_S
from emberward.report import RunFolder
from emberward.runs import Inspection, read_inspections, write_answer, write_late


class Inspections:
    """The questions to this rank. A thread finds them, so that a file system that stands still holds up nobody.

    The ranks of a host look together as often as one of them looks for the kill switch.
    """

    def __init__(self, folder: RunFolder, *, rank: int, local_world_size: int) -> None:
        self._folder = folder
        self._rank = rank
        self._every_s = SWITCH_EVERY_S * local_world_size
        self._known: set[Path] = set()
        self._found: SimpleQueue[Inspection] = SimpleQueue()
        self._waiting: list[Inspection] = []
        self._due: list[Inspection] = []
        self._gradients: dict[str, list[Part]] = {}

    def watch(self) -> None:
        """Finds what is asked by now; a thread finds the rest."""
        self._find()
        threading.Thread(target=self._keep_finding, name="inspections", daemon=True).start()

    def _keep_finding(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self._every_s)
            self._find()

    def _find(self) -> None:
        # What cannot be read is not asked; the one who asks has a limit.
        with contextlib.suppress(OSError, KeyError):
            for inspection in read_inspections(self._folder, known=self._known):
                self._known.add(inspection.folder)
                self._found.put(inspection)

    def begin_step(self, engine: Engine, *, step: int) -> Callable[[], None] | None:
        """Settles what is answered when the step ends that makes it `step` steps; what is called before its update."""
        with contextlib.suppress(Empty):
            while True:
                self._waiting.append(self._found.get_nowait())
        self._due = [inspection for inspection in self._waiting if inspection.step == step]
        for inspection in self._waiting:
            if inspection.step < step and _owned(engine, inspection.name):
                _lane().submit(_quietly, write_late, inspection, rank=self._rank, step=step - 1)
        self._waiting = [inspection for inspection in self._waiting if inspection.step > step]
        return (lambda: self._keep_gradients(engine)) if self._due else None

    def _keep_gradients(self, engine: Engine) -> None:
        for inspection in self._due:
            owned = [(part, part.local_grad) for part in _owned(engine, inspection.name)]
            self._gradients[inspection.name] = [_part("grad/", part, grad) for part, grad in owned if grad is not None]

    def end_step(self, engine: Engine) -> None:
        """Answers what is due: copies this rank's parts; a lane writes them."""
        for inspection in self._due:
            owned = _owned(engine, inspection.name)
            parts = [_part("model/", part, part.local) for part in owned]
            parts += [
                _part(f"optim/{moment}/", part, local)
                for moment, part, local in engine.optimizer.moments()
                if any(part is each for each in owned)
            ]
            if parts:
                parts += self._gradients.get(inspection.name, [])
                _lane().submit(_quietly, write_answer, inspection, parts, rank=self._rank)
        self._due = []
        self._gradients = {}

    def close(self) -> None:
        """Waits until what is due is written. Blocks."""
        if self._known:
            _lane().join()


def _lane() -> Lane:
    """The lane that writes answers; there is none in a job that nobody asks."""
    return lane("inspections")


def _owned(engine: Engine, name: str) -> Sequence[ParameterPart]:
    """The parts of a parameter that this rank answers for."""
    return [part for part in engine.parts if part.name == name and part.is_owner and part.local.numel()]


def _part(prefix: str, part: ParameterPart, tensor: Tensor) -> Part:
    """A copy on the host."""
    values = tensor.detach().to("cpu", torch.float32, copy=True).contiguous()
    return Part(
        name=prefix + part.name,
        dtype=DType.F32,
        global_shape=part.shape,
        box=part.box,
        bits=values.numpy().view("<u4"),
    )


def _quietly(write: Callable[..., None], *args: object, **rest: object) -> None:
    """Writes, unless the one who asked has gone and taken the question away, or the disk is full."""
    with contextlib.suppress(OSError):
        write(*args, **rest)
