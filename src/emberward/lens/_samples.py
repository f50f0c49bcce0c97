"""What the sampler of one rank saw, read back. The writer is `emberward.sources._sampler`."""

import bisect
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

FORM = 1
SUFFIX = ".lens"
MAX_LINES = 200_000
"""Lines of one file that are read."""

MIN_SHARE = 0.01
"""Of a step: less is not told. The lens itself may cost up to 3% of a step, and its budget closes within 2%."""
MIN_COST_S = 0.00015
"""A step: a look may see what begins so long after its moment (a late timer, the interpreter): it may be another's."""

MIN_GAIN = 0.03
"""Of a step: what a step would gain less by would not show between two runs (`MIN_COMPARED`), so it is not told."""

USER, OURS = "user", "ours"
"""Owners of a frame that the rules ask for, as the sampler writes them."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a frame: `line` and `column` to `last_line` and `last_column` is its part of the source.

    Columns count bytes of the line and are None where Python keeps none. `operation` is the byte code's name.
    """

    file: str
    function: str
    first_line: int
    owner: str
    line: int
    last_line: int
    column: int | None
    last_column: int | None
    operation: str

    @property
    def site(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"


def is_module_call(place: Instruction) -> bool:
    """Whether torch calls a module there; other methods of a module's, as `state_dict`, compute nothing."""
    return place.function in ("_call_impl", "_wrapped_call_impl") and place.file.endswith("torch/nn/modules/module.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A stack, innermost first, and by step its seconds and those on a processor. `flag`: eval, gc or nothing.

    Seconds in which no processor was free for the thread are not among them.

    `at_s`: by step, the mean time at which it was seen, on the clock of the bounds; steps of older files are missing.
    `beside`: the stacks of the other threads in functions of the program, while this one waited.
    """

    stack: tuple[Instruction, ...]
    flag: str
    steps: Mapping[int, tuple[float, float]]
    at_s: Mapping[int, float] = field(default_factory=dict)
    beside: tuple[tuple[Instruction, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSamples:
    """One process: its steps' bounds on the host's monotonic clock, and the stacks of its training thread.

    Step k lies between bounds k and k + 1; `first_step` is the number of the first. `loop`: file, function and first
    line of the functions that every step ends in, outermost first. `outputs`: lines that printed or logged something.
    `by_turns`: no step was told, and turns of the program's loop are taken for steps. `is_spread`: what was seen is
    spread evenly over the steps, for nobody knows in which of them it was. `retried`: how often the device's allocator
    tried again, by step, where it did. `pageable`: lines that copy to a device from memory that is not pinned.
    `num_reads`: numbers that the training thread takes out of tensors, a step. `log_lines`: lines that give values to a
    library's log. `shares`: of lines, what of their time is spent with tensors ([Note: lines without tensors]).
    `returned`: lines and the functions of Python's that give them what they have given before.
    `others_s`: processor time of the process's other threads. `cores`: processors that it may use, 0 where that is not
    known. `threads`: those that compute an operation.
    """

    rank: int
    pid: int
    world_size: int | None
    first_step: int
    bounds_s: tuple[float, ...]
    period_s: float
    queue_s: float
    has_cpu_time: bool
    device: str
    loop: tuple[tuple[str, str, int], ...]
    outputs: frozenset[tuple[str, int]]
    stacks: tuple[Sampled, ...]
    is_whole: bool
    is_spread: bool = False
    by_turns: bool = False
    retried: Mapping[int, int] = field(default_factory=dict)
    pageable: frozenset[str] = frozenset()
    num_reads: float = 0.0
    log_lines: frozenset[tuple[str, int]] = frozenset()
    shares: Mapping[tuple[str, int], float] = field(default_factory=dict)
    returned: frozenset[tuple[str, int, str]] = frozenset()
    others_s: float = 0.0
    cores: int = 0
    threads: int = 1
    problems: tuple[str, ...] = field(default=())

    @property
    def num_steps(self) -> int:
        """Steps that were measured whole."""
        return max(len(self.bounds_s) - 1, 0)

    @property
    def measured_s(self) -> float:
        """Seconds of those steps."""
        return self.bounds_s[-1] - self.bounds_s[0] if self.num_steps else 0.0

    @property
    def step_s(self) -> tuple[float, ...]:
        """The length of each step."""
        return tuple(b - a for a, b in zip(self.bounds_s, self.bounds_s[1:], strict=False))


ENGINE = "_engine_run_backward"
"""The function of torch (torch/autograd/graph.py, 2.13) in which a thread stands while C++ runs the backward."""


def is_backward(sampled: Sampled) -> bool:
    """Whether the thread was in a backward, or in what one calls."""
    return any(place.function == ENGINE for place in sampled.stack)


def find_samples(folder: Path) -> tuple[Path, ...]:
    """The files of the sampled processes of a folder by name; none when there is no folder."""
    return tuple(sorted(folder.glob(f"*{SUFFIX}")))


def read_samples(path: Path) -> RankSamples:
    """What a file holds. Raises ValueError when it is none of ours, or is cut; OSError when it cannot be read."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for _, line in zip(range(MAX_LINES), file, strict=False)]
    return samples_of(lines)


def ranks_of_job(samples: Sequence[RankSamples]) -> tuple[RankSamples, ...]:
    """The newest samples of each rank. Where some ranks end steps, one that only turns in a loop takes part in theirs.

    A process that is no rank of the same job is a helper, and is left out there.
    """
    ordered = sorted(samples, key=lambda each: each.bounds_s[:1] or (0.0,))
    turning = {each.rank: each for each in ordered if each.by_turns}
    told = {each.rank: each for each in ordered if not each.by_turns}
    if not told:
        return tuple(turning[rank] for rank in sorted(turning))
    first = told[min(told)]
    for rank in turning.keys() - told.keys():
        if turning[rank].world_size is not None and turning[rank].world_size == first.world_size:
            told[rank] = _in_steps_of(turning[rank], first)
    return tuple(told[rank] for rank in sorted(told))


def steps_since(ranks: Sequence[RankSamples], begin_s: float) -> tuple[RankSamples, ...]:
    """The ranks with the steps alone that began after a moment on all of them; all steps where none did."""
    skipped = max((bisect.bisect_left(rank.bounds_s, begin_s) for rank in ranks), default=0)
    return tuple(_without_first(rank, skipped) if skipped < rank.num_steps else rank for rank in ranks)


def _without_first(rank: RankSamples, num_steps: int) -> RankSamples:
    if num_steps == 0:
        return rank
    first = rank.first_step + num_steps
    stacks = (
        replace(each, steps={step: spent for step, spent in each.steps.items() if step >= first})
        for each in rank.stacks
    )
    return replace(
        rank,
        first_step=first,
        bounds_s=rank.bounds_s[num_steps:],
        queue_s=rank.queue_s * (1 - num_steps / rank.num_steps),
        others_s=rank.others_s * (1 - num_steps / rank.num_steps),
        stacks=tuple(each for each in stacks if each.steps),
    )


def _in_steps_of(rank: RankSamples, other: RankSamples) -> RankSamples:
    """What was seen of a rank, in the steps of another one."""
    stacks = []
    for sampled in rank.stacks:
        steps: dict[int, tuple[float, float]] = {}
        at_s: dict[int, float] = {}
        for step, (wall, cpu) in sampled.steps.items():
            index = bisect.bisect_right(other.bounds_s, sampled.at_s[step]) if step in sampled.at_s else 0
            if 0 < index < len(other.bounds_s):
                own = other.first_step + index - 1
                before = steps.get(own, (0.0, 0.0))
                steps[own] = before[0] + wall, before[1] + cpu
                at_s[own] = sampled.at_s[step]
        stacks.append(replace(sampled, steps=steps, at_s=at_s))
    return replace(rank, first_step=other.first_step, bounds_s=other.bounds_s, stacks=tuple(stacks))


def uncertainty(seconds: Sequence[float], num_steps: int) -> float:
    """The standard error of what steps spend on one thing, as a share of their mean: that of few long waits is large.

    `seconds`: of each step that spends any.
    """
    each = [*seconds, *(0.0 for _ in range(num_steps - len(seconds)))]
    mean = statistics.fmean(each)
    return statistics.stdev(each) / math.sqrt(num_steps) / mean if num_steps > 1 and mean > 0 else 1.0


def share_at(site: str | None, rank: RankSamples | None) -> float:
    """The share of the sampled steps that is spent at a line of the program, and in nothing else of it below."""
    if rank is None or site is None:
        return 0.0
    inside = (each for each in rank.stacks if next((p.site for p in each.stack if p.owner == USER), None) == site)
    return sum(seconds for each in inside for seconds, _ in each.steps.values()) / rank.measured_s


def _spent(cells: Mapping[str, Sequence[int]]) -> dict[int, tuple[float, float]]:
    """By step the seconds of a stack, and those on a processor.

    What it lacked a processor for is the host's doing and no line's, and is left out. The kernel tells of that when the
    thread runs again, maybe a step later.
    """
    found = {}
    for step, (wall, cpu, *rest) in cells.items():
        queued = rest[1] if len(rest) > 1 else 0
        found[int(step)] = max(wall - queued, min(cpu, wall)) / 1e9, min(cpu, wall) / 1e9
    return found


def _retried(first_step: int, counts: Sequence[int]) -> dict[int, int]:
    """By step what a counter grew by; `counts` are those at the steps' bounds."""
    grown = ((first_step + i, now - before) for i, (before, now) in enumerate(pairwise(counts)))
    return {step: more for step, more in grown if more > 0}


def samples_of(lines: Iterable[Mapping[str, Any]]) -> RankSamples:
    """The rank that the lines of a file describe. Raises ValueError when they are cut or of another form."""
    rest = iter(lines)
    head = next(rest, {})
    if head.get("form") != FORM:
        raise ValueError("not a file of samples, or of another version")
    places: list[Instruction] = []
    stacks: list[Sampled] = []
    is_ended = False
    for line in rest:
        if "place" in line:
            places.append(Instruction(*line["place"]))
        elif "stack" in line:
            stacks.append(
                Sampled(
                    stack=tuple(places[i] for i in line["stack"]),
                    flag=line["flag"],
                    steps=_spent(line["steps"]),
                    at_s={int(k): cell[2] / 1e9 for k, cell in line["steps"].items() if len(cell) > 2},
                    beside=tuple(tuple(places[i] for i in each) for each in line.get("beside", ())),
                )
            )
        is_ended = is_ended or "end" in line
    if not is_ended:
        raise ValueError("the file is cut off")
    return RankSamples(
        rank=head["rank"],
        pid=head["pid"],
        world_size=head["world_size"],
        first_step=head["first_step"],
        bounds_s=tuple(each / 1e9 for each in head["bounds_ns"]),
        period_s=head["period_ns"] / 1e9,
        queue_s=head["queue_ns"] / 1e9,
        has_cpu_time=head["has_cpu_time"],
        device=head["device"],
        loop=tuple((file, function, first) for file, function, first in head["loop"]),
        outputs=frozenset((file, line) for file, line in head["outputs"]),
        stacks=tuple(stacks),
        is_whole=head["is_last"],
        by_turns=head.get("by_turns", False),
        retried=_retried(head["first_step"], head.get("retries", ())),
        others_s=head.get("others_ns", 0) / 1e9,
        cores=head.get("cores") or 0,
        threads=head.get("threads", 1),
    )
