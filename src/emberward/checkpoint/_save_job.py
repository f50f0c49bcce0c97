"""What a rank and the process that writes its saves tell each other, pickled, over one pair of sockets.

The rank sends an `SaveJob`, answers each `Vote` with an `Answer`, and may send `Hurry` at any time; the writer ends an
job with `Done`. When one of them has gone the other reads an end of file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint._boxes import box_shape, volume
from emberward.checkpoint._format import DType
from emberward.checkpoint._kept import Keep
from emberward.checkpoint._part import Part
from emberward.checkpoint._save import Saved
from emberward.findings import Cause, EmberwardError
from emberward.layout import Box
from emberward.recipe import ReadBack

Line = Connection
"""One end of the pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A `Part` by where its bits lie in the copy: from byte `offset`, row-major."""

    name: str
    dtype: DType
    global_shape: tuple[int, ...]
    box: Box
    offset: int

    def part(self, memory: NDArray[np.uint8]) -> Part:
        """The part itself, in the copy's memory."""
        end = self.offset + volume(self.box) * self.dtype.item_bytes
        bits = memory[self.offset : end].view(f"<u{self.dtype.item_bytes}").reshape(box_shape(self.box))
        return Part(name=self.name, dtype=self.dtype, global_shape=self.global_shape, box=self.box, bits=bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJob:
    """One save: what `save_parts` is given, the copy it is of, and how long idle processors may take over it."""

    root: Path
    step: int
    placed: tuple[Placed, ...]
    meta: Mapping[str, Any]
    rank: int
    world_size: int
    keep: Keep
    read_back: ReadBack
    memory_bytes: int
    memory_generation: int
    patience_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """The writer asks whether every rank is as well as this one."""

    is_well: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether every rank was well; None: the ranks could not agree, and the save is to be given up."""

    are_well: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hurry:
    """The training waits: do not leave the rest to idle processors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error in the form in which it crosses: the fields of an EmberwardError, or the words of any other."""

    fields: Mapping[str, Any] | None
    text: str

    @classmethod
    def of(cls, error: BaseException) -> "Problem":
        """The error, to be sent."""
        if not isinstance(error, EmberwardError):
            return cls(fields=None, text=f"{type(error).__name__}: {error}")
        names = ("what", "code", "where", "expected", "found", "next", "cause", "ranks", "choices")
        return cls(fields={name: getattr(error, name) for name in names}, text=str(error))

    def error(self) -> Exception:
        """The error again. One that is no EmberwardError is our own mistake and stays one: a RuntimeError."""
        if self.fields is None:
            return RuntimeError(f"the process that writes saves: {self.text}")
        fields = dict(self.fields)
        fields["cause"] = Cause(fields["cause"])
        return EmberwardError(fields.pop("what"), **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a job ended; `cpu_s` of processor time it took, `is_urgent` when idle processors were not enough."""

    saved: Saved | None
    problem: Problem | None
    cpu_s: float
    is_urgent: bool
