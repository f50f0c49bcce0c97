"""The dry run of one rank of a recipe: the real engine and trainer on fake tensors and a group without peers.

[Note: declared values]
Fake tensors hold no values, so every value on which the host decides is declared here, by the name under which the
engine reads it. Each is a decision that all ranks share because it is the result of a collective over the world.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from emberward import checkpoint
from emberward.checkpoint import Begun, Shard, Written
from emberward.engine import Engine, Inspection, build_world, by_host_lane
from emberward.events import Acquire, Event, Phase, Release
from emberward.rank._folded import FoldedEngine
from emberward.rank._rehearsal import STOPPED, PhaseMarker, Script, Stage, play
from emberward.rank._signals import StopRequest
from emberward.recipe import ends_of, has_backward_lane, mesh_of
from emberward.report import RunFolder
from emberward.sources import SETUP, ProgramWriter, RoleProgram, SiteFinder, Tape, Transport, kind_of
from emberward.sources.fake_world import fake_tensors, fake_world
from emberward.sources.recorder import Recorder

PACKAGE = Path(__file__).parents[1]

ASSUMPTIONS = (
    "each step has tokens; in the last part its gradients are not finite, and it is skipped",
    "each save is written well on every rank",
    "nobody asks to stop, and in the last part one rank does",
    "the sampled tokens are any: they change no call",
    "copies that are compared are equal",
)
"""What `DeclaredValues` declares, in words for a verdict."""


_ALL_ALIKE = ("replica_words", "not_finite", "debug_equal")
"""What every rank says alike, each with as many values: that copies are equal, that nothing is to be told."""


@dataclass(slots=True)
class DeclaredValues:
    """Answers the engine's reads. See [Note: declared values]."""

    num_stops: float = 0.0
    is_finite: bool = True

    def read(self, name: str, tensor: Tensor) -> list[float]:
        """The declared values behind `tensor`, as many as it has. Raises KeyError for a name that is not declared."""
        if name in _ALL_ALIKE:
            return [0.0] * tensor.numel()
        declared = {
            "step_totals": [1.0, 1.0, 1.0, 0.0, 0.0 if self.is_finite else 1.0, self.num_stops],
            "eval_totals": [1.0, 1.0],
            "sampled_token": [0.0],
            "vote": [0.0],
        }[name]
        assert len(declared) == tensor.numel(), f"{name} has {tensor.numel()} values, {len(declared)} are declared"
        return declared


class BlankInstruments:
    """Looks at nothing: digests of tensors without values are zeros."""

    @property
    def digests(self) -> "BlankInstruments":
        """Itself."""
        return self

    def of_shards(self, shards: Sequence[Shard]) -> Tensor:
        """Zeros int64, one for each shard."""
        return torch.zeros(len(shards), dtype=torch.int64)

    def of_generators(self) -> dict[str, int]:
        """None: a dry run draws nothing."""
        return {}

    @contextlib.contextmanager
    def inspect(self, engine: Engine) -> Iterator[Inspection]:
        """Finds nothing."""
        del engine
        yield Inspection()


def site_finder() -> SiteFinder:
    """Finds lines of the engine: under a recipe, Emberward's own code is what the user runs."""
    return SiteFinder(roots=(PACKAGE.parent,), program=lambda: PACKAGE.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a rank did in a rehearsal: its events, and its calls as a role's part of a certificate."""

    events: tuple[Event, ...]
    program: RoleProgram


class PartMarks:
    """Remembers where on a tape each part of a run begins, to cut its calls into a certificate's segments."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._marks: list[tuple[int, str, int | None]] = [(0, SETUP, None)]

    def begin(self, phase: Phase, count: int | None = None, /) -> None:
        """A part of the run begins."""
        self._marks.append((len(self._tape), kind_of(phase, count), count))

    def program(self) -> RoleProgram:
        """The tape's calls so far, cut at the marks."""
        writer = ProgramWriter(self._tape.rank)
        ends = [first for first, _, _ in self._marks[1:]] + [len(self._tape)]
        for (first, kind, count), end in zip(self._marks, ends, strict=True):
            writer.segment(kind, count, self._tape.calls(first=first, end=end))
        return writer.program()


def dry_run(script: Script, rank: int, *, transport: Transport, is_folded: bool = True) -> Rehearsed:
    """What `rank` does in the rehearsal `script`. Needs no peers and no accelerator; writes to a scratch folder.

    With `is_folded` what repeats itself is executed a few times and then repeated on the tape: see `_folded.py`. Not
    where backwards have a lane of their own, nor with debug operations, which are for some micro-batches.
    """
    folds = is_folded and not has_backward_lane(script.recipe) and not script.recipe.debug
    mesh = mesh_of(script.recipe.layout)
    tape = Tape(rank, find_site=site_finder().here, transport=transport)
    values = DeclaredValues()
    parts = PartMarks(tape)
    marker = PhaseMarker(tape.mark, begin=parts.begin)

    def before_part(name: str, stop: StopRequest) -> None:
        del stop
        values.num_stops = 1.0 if name == STOPPED else 0.0
        values.is_finite = name != STOPPED

    with (
        tempfile.TemporaryDirectory(prefix="emberward-check-") as scratch,
        fake_world(rank, mesh.size),
        Recorder(tape).recording(),
    ):
        world = build_world(
            mesh,
            device=torch.device("cpu"),
            timeout_s=script.recipe.timeout_s,
            ends=ends_of(script.recipe),
            has_backward_lane=has_backward_lane(script.recipe),
        )
        stage = Stage(
            world=replace(world, read=tape.noting_reads(values.read), mark=marker.inner, lanes=NotedLanes(tape)),
            folder=RunFolder(path=Path(scratch)),
            enter=marker.enter,
            save=rehearse_save,
            background=NoSaves,
            before_part=before_part,
            instruments=BlankInstruments(),
            engine=partial(FoldedEngine, tape=tape) if folds else Engine,
        )
        with fake_tensors():
            play(script, stage)
    return Rehearsed(events=tape.events(), program=parts.program())


class NotedLanes:
    """Notes what stands on each host lane without running two at once: on this thread, in the program's order."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        note = partial(tape.call, is_blocking=True)
        self.acquire: Callable[[Acquire], object] = note
        self.release: Callable[[Release], object] = note

    def run(self, events: Sequence[Event], do: Callable[[Event], None], credits: Mapping[str, int]) -> None:
        """Does every event, noted as its lane's."""
        del credits
        lane_of = {event: lane for lane, own in by_host_lane(events).items() for event in own}
        for event in events:
            with self._tape.on_thread(lane_of[event].index):
                do(event)


class NoSaves:
    """Background saves that are never written: they communicate beside the training, which a dry run leaves out."""

    def begin(self, *, step: int, shards: Sequence[Shard], meta: Mapping[str, Any]) -> Begun:
        """A save that takes no time."""
        del shards, meta
        return Begun(step=step, waited_for=None, waited_s=0.0, copied_s=0.0, staged_bytes=0)

    def poll(self) -> Written | None:
        """None: there is nothing to tell."""

    def finish(self) -> Written | None:
        """None: there is nothing to tell."""

    def after(self, job: Callable[[], None]) -> None:
        """Does nothing: there is no save to put anything beside."""

    def close(self) -> None:
        """Does nothing."""


def rehearse_save(root: Path, *, agree: Callable[[bool], bool], **rest: object) -> None:
    """Takes what `checkpoint.save` takes and makes its agreements; writes nothing."""
    del root, rest
    checkpoint.rehearse(agree=agree)
