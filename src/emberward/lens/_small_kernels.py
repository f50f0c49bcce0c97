"""Loops of a program that give a tensor's work to many operations, each too small to be worth its start. Pure.

[Note: small kernels]
A loop that goes over time steps, rows or images, and computes with one of them at a time, begins some operations for
each: what they take is their start, in Python and in torch, and not their numbers. The text shows a loop whose variable
is used in its body; looks at the observed steps show how many operations begin in it and how much of its time these
take: `MIN_SMALL` a step and more, most of the loop's time between them or each shorter than `SMALL_S`. Without the loop
all that is spent in it goes, and what the backward takes for the operations that it made.

A loop over many small parameters is one: torch has a call for lists of them (``torch._foreach_lerp_``). The loop over
a model's own blocks is none, nor one over batches, or in which a model is run whole: its variable is what is called, a
backward or a yield stands in it, or a container of torch's or two functions of the program are between the loop and the
operation. Nor is one that calls a library or a collective. Time that another cause explains is that cause's.
"""

import ast
import bisect
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.findings import Cause
from emberward.lens._causes import tell
from emberward.lens._elements import TRAINS
from emberward.lens._operations import KERNEL, Operation, RankOperations
from emberward.lens._samples import MIN_COST_S, MIN_GAIN, MIN_SHARE, OURS, USER, Instruction, RankSamples
from emberward.lens._slowdown import ENGINE
from emberward.lens._source import Line, Source, Sources, call_name, names_in
from emberward.lens._waste import Waste

MIN_SMALL = 100
"""Operations a step that one loop begins: those of a model's blocks are fewer for each loop of the program's."""
SMALL_S = 0.00002
"""Of an operation: as much as torch and Python take to begin one, 5 to 20 us with its profiler on."""
MAX_IN_OPERATIONS = 0.5
MIN_LOOKS = 4
"""Looks in a loop, over all observed steps, from which something is said of it."""
PACKAGE = "package"
"""The owner of a library's frames: what it does for the loop is no operation's start."""
_WHOLE_MODELS = ("torch/nn/modules/container.py", "torch/nn/modules/transformer.py", "torch/nn/modules/rnn.py")
_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Loop = tuple[str, int]
"""File and line of a loop."""


def small_kernels(
    operations: Sequence[RankOperations], samples: Sequence[RankSamples], sources: Sources
) -> tuple[Waste, ...]:
    """The loops whose small operations cost a step enough, at the line in them that takes most."""
    of_samples = {rank.rank: rank for rank in samples if rank.num_steps}
    best: dict[Loop, tuple[Waste, list[int]]] = {}
    for rank in operations:
        sampled = of_samples.get(rank.rank)
        if sampled is None or not rank.looks or not rank.num_steps:
            continue
        loops = _Loops(sampled, sources)
        spent, sites = loops.spent()
        step_s = sampled.measured_s / sampled.num_steps
        for loop, seen in _seen_in(rank, loops).items():
            forward_s, behind_s = spent.get(loop, 0.0), seen.backward * loops.backward_s
            cost_s = forward_s + behind_s
            if not seen.is_small or forward_s <= 0 or cost_s < max(MIN_GAIN * step_s, MIN_SHARE * step_s, MIN_COST_S):
                continue
            waste = Waste(
                cause=Cause.SMALL_KERNELS,
                site=f"{loop[0]}:{sites[loop].most_common(1)[0][0]}",
                cost_s=cost_s,
                share=cost_s / step_s,
                ranks=(rank.rank,),
                evidence=(
                    f"{seen.num:.0f} operations a step in the loop at {loop[0]}:{loop[1]}, "
                    f"{1e6 * seen.mean_s:.0f} us each in the mean",
                    f"{1000 * forward_s:.2f} ms of it in the loop, {1000 * behind_s:.2f} ms in its backward",
                ),
            )
            before = best.get(loop)
            ranks = [*(before[1] if before else ()), rank.rank]
            best[loop] = (waste if before is None or before[0].cost_s < cost_s else before[0], ranks)
    return tuple(replace(waste, ranks=tuple(ranks)) for waste, ranks in best.values())


@dataclass(frozen=True, slots=True)
class _Seen:
    """Of a loop in the observed steps: operations a step, their mean length, their share of its time, and the share of
    the backward that is theirs."""

    num: float
    mean_s: float
    share: float
    backward: float

    @property
    def is_small(self) -> bool:
        return (self.num >= MIN_SMALL and self.mean_s <= SMALL_S) or (
            self.num >= MIN_SMALL and self.mean_s <= 2 * SMALL_S and self.share <= MAX_IN_OPERATIONS
        )


class _Loops:
    """The loops of a rank's program in which small operations may stand."""

    def __init__(self, rank: RankSamples, sources: Sources) -> None:
        self._rank = rank
        self._sources = sources
        self._known: dict[tuple[Instruction, ...], Loop | None] = {}
        self._trained: set[Line] = set()
        """Lines below which a backward runs."""
        self._stepping: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        """Of the functions that every step ends in: the lines that were seen."""
        self.backward_s = 0.0
        for sampled in rank.stacks:
            for place, known in zip(reversed(sampled.stack), rank.loop, strict=False):
                if (place.file, place.function, place.first_line) == known:
                    self._stepping[known].add(place.line)
            if any(place.function == ENGINE for place in sampled.stack):
                self._trained |= {(place.file, place.line) for place in sampled.stack if place.owner == USER}
                self.backward_s += sum(seconds for seconds, _ in sampled.steps.values()) / rank.num_steps

    def spent(self) -> tuple[dict[Loop, float], dict[Loop, Counter[int]]]:
        """Seconds a step in each loop that no other cause explains, and by line of the loop's function."""
        spent: dict[Loop, float] = defaultdict(float)
        sites: dict[Loop, Counter[int]] = defaultdict(Counter)
        for sampled in self._rank.stacks:
            loop = self.of(sampled.stack)
            if loop is None or sampled.flag or tell(sampled, self._rank, self._sources) is not None:
                continue
            seconds = sum(each for each, _ in sampled.steps.values())
            spent[loop] += seconds / self._rank.num_steps
            own = next(each for each in sampled.stack if each.owner == USER and self.around(each) == loop)
            sites[loop][own.line] += int(1e9 * seconds)
        return spent, sites

    def of(self, stack: tuple[Instruction, ...]) -> Loop | None:
        """The innermost loop of the program in which the stack stands, where it may be one of small operations."""
        if stack not in self._known:
            self._known[stack] = self._of(stack)
        return self._known[stack]

    def _of(self, stack: Iterable[Instruction]) -> Loop | None:
        num_inside = 0
        for place in stack:
            if place.function == ENGINE or place.file.endswith(_WHOLE_MODELS) or place.owner in (PACKAGE, OURS):
                return None
            if place.owner != USER:
                continue
            loop = _around(self._sources.of(place.file), place)
            if loop is not None:
                return self.around(place) if self._may_be_small(loop, place) else None
            num_inside += 1
            if num_inside > 1:
                return None
        return None

    def around(self, place: Instruction) -> Loop | None:
        """The innermost loop around an instruction in its function."""
        loop = _around(self._sources.of(place.file), place)
        return None if loop is None else (place.file, getattr(loop, "lineno", 0))

    def _may_be_small(self, loop: ast.AST, place: Instruction) -> bool:
        inside = [*ast.walk(loop)]
        lines = range(getattr(loop, "lineno", 0), (getattr(loop, "end_lineno", 0) or 0) + 1)
        if any(file == place.file and line in lines for file, line in self._trained):
            return False
        if self._stepping.get((place.file, place.function, place.first_line), {0}) <= {*lines}:
            return False  # All that is seen of a step stands in it.
        calls = [each for each in inside if isinstance(each, ast.Call)]
        is_generator = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in inside)  # It turns once a step.
        if is_generator or any(call_name(call) in TRAINS for call in calls):
            return False
        parts = [loop] if isinstance(loop, ast.For) else [*getattr(loop, "generators", ())]
        turning = {name for part in parts for name in names_in(part.target)} - {"_"}
        over = [each for part in parts for each in ast.walk(part.iter)]
        if any(names_in(call.func) & turning and not _is_method_of(call, turning) for call in calls):
            return False
        outside = {each for each in over} | {each for part in parts for each in ast.walk(part.target)}
        return any(isinstance(each, ast.Name) and each.id in turning and each not in outside for each in inside)


def _is_method_of(call: ast.Call, turning: set[str]) -> bool:
    """Whether a method of the loop's own value is called, ``image.flip(0)``, or of what it picks, ``x[i].flip(0)``."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(of, ast.Subscript | ast.Attribute | ast.Call):
        of = of.func if isinstance(of, ast.Call) else of.value
    return isinstance(call.func, ast.Attribute) and of is not None


def _around(source: Source, place: Instruction) -> ast.AST | None:
    """The innermost loop around an instruction in its function."""
    node = source.node_at(place)
    is_comprehension = place.function.startswith("<")
    for each in [] if node is None else [node, *(parent for _, parent in source.above(node))]:
        if isinstance(each, ast.FunctionDef | ast.Lambda):
            return None
        if isinstance(each, ast.For) or (is_comprehension and isinstance(each, _COMPREHENSIONS)):
            return each
    return None


def _seen_in(rank: RankOperations, loops: _Loops) -> Mapping[Loop, _Seen]:
    """What each loop does in the observed steps."""
    kernels = sorted(
        (op for op in rank.operations if op.thread == rank.main and not op.is_async and KERNEL.match(op.name)),
        key=lambda op: op.began_s,
    )
    begins = [op.began_s for op in kernels]
    nodes = [op for op in rank.operations if op.name.endswith(_NODES) and op.sequence >= 0]
    period_s = (rank.looks[-1][0] - rank.looks[0][0]) / max(len(rank.looks) - 1, 1)
    found: dict[Loop, _Seen] = {}
    for loop, (num_looks, runs) in _runs(rank, loops).items():
        inside: list[Operation] = []
        for begin_s, end_s in runs:
            inside += kernels[bisect.bisect_left(begins, begin_s) : bisect.bisect_left(begins, end_s)]
        lasted_s = sum(end_s - begin_s for begin_s, end_s in runs)
        if num_looks < MIN_LOOKS or not inside or lasted_s <= 0:
            continue
        in_operations_s = _usual_s(inside)
        found[loop] = _Seen(
            num=len(inside) / lasted_s * num_looks * period_s / rank.num_steps,
            mean_s=in_operations_s / len(inside),
            share=in_operations_s / lasted_s,
            backward=_behind(inside, nodes),
        )
    return found


def _usual_s(operations: Sequence[Operation]) -> float:
    """What they take together, each the middle one of its kind: what lost its processor is no longer than others."""
    kinds: dict[tuple[str, tuple[tuple[int, ...], ...]], list[float]] = defaultdict(list)
    for op in operations:
        kinds[op.name, op.shapes].append(op.ended_s - op.began_s)
    return sum(len(each) * statistics.median(each) for each in kinds.values())


_NODES = ("Backward0", "Backward1", "Backward2")


def _runs(rank: RankOperations, loops: _Loops) -> dict[Loop, tuple[int, list[tuple[float, float]]]]:
    """Of each loop the looks in it, and from which look to which the thread stood in it."""
    found: dict[Loop, tuple[int, list[tuple[float, float]]]] = {}
    before: tuple[Loop | None, float, int] = (None, 0.0, -1)
    for at_s, stack in rank.looks:
        step = bisect.bisect_right(rank.bounds_s, at_s) - 1
        loop = loops.of(stack) if 0 <= step < rank.num_steps else None
        if loop is not None:
            number, runs = found.get(loop, (0, []))
            if before[0] == loop and before[2] == step:
                is_on = bool(runs) and runs[-1][1] == before[1]
                runs = [*runs[:-1], (runs[-1][0], at_s)] if is_on else [*runs, (before[1], at_s)]
            found[loop] = number + 1, runs
        before = loop, at_s, step
    return found


def _behind(inside: Sequence[Operation], nodes: Sequence[Operation]) -> float:
    """The share of the backward's own nodes whose forward is among those operations, by their time."""
    made = {op.sequence for op in inside if op.sequence >= 0}
    total_s = sum(op.ended_s - op.began_s for op in nodes)
    own_s = sum(op.ended_s - op.began_s for op in nodes if op.sequence in made)
    return own_s / total_s if total_s > 0 else 0.0
