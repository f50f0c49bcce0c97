"""Loops of a program that give a tensor's work to many operations, each too small to be worth its start. Pure.

[Note: small kernels]
A loop that goes over time steps, rows or images, and computes with one of them at a time, begins some operations for
each: what they take is their start, in Python and in torch, and not their numbers. The text shows a loop whose variable
is used in its body; looks at the observed steps show which operations run in it. What an operation takes beyond
the start of one is its numbers' time; a start is what this process takes for operations of at most `FEW_NUMBERS`. The
rest of the loop's time would go if it were one call of each, as would that part of its backward, and what slices add
there: the gradient of each is written into zeros as large as what it was cut from, and added. A loop is told where
that is more than half of what it takes with its backward, and where operations are a good part of it: else it is
Python's own work.

A value that each turn makes of the last turn's by a matrix product, a cell's state, has to go turn by turn: that loop
is none, unless a cell of torch's makes it of inputs that do not depend on it: the layer of that cell goes over all
steps in one call. A sum of what the turns give is no such value, nor is what is elementwise: a scan or one compiled
loop makes it.

A loop over many small parameters is one: torch has a call for lists of them (``torch._foreach_lerp_``), and so is one
over optimizers of few parameters each, whose groups one optimizer can have, and one over modules that do the same with
what no other one has made: heads, experts. The loop over a model's own blocks
is none, nor one over batches, or in which a model is run whole: each is given what the one before made, a
backward or a yield stands in it, or a container of torch's or two functions of the program are between the loop and the
operation. Nor is one that calls a library or a collective. Time that another cause explains is that cause's.
"""

import ast
import bisect
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from emberward.findings import Cause
from emberward.lens._causes import tell
from emberward.lens._elements import TRAINS
from emberward.lens._flops import flops_of
from emberward.lens._operations import KERNEL, Operation, RankOperations
from emberward.lens._paces import backward_of
from emberward.lens._samples import ENGINE, MIN_COST_S, MIN_GAIN, OURS, USER, Instruction, RankSamples, is_backward
from emberward.lens._source import Line, Source, Sources, call_name, names_in, read_in
from emberward.lens._waste import Waste
from emberward.lens._work import NODE

FEW_NUMBERS = 1024
"""In the largest tensor of an operation: less than a microsecond of arithmetic on one core, or one block of a GPU."""
MIN_STARTS = 20
"""Operations of so few numbers from which the start of one is known. Where there are fewer nothing is said."""
MIN_IN_OPERATIONS = 0.05
"""Share of a loop's time that its operations take at least."""
MIN_ALIKE = 3
"""Of turns that call their own value, as heads or experts: so many that do the same are worth one call."""
MIN_LOOKS = 4
"""Looks in a loop, over all observed steps, from which something is said of it."""
_VIEWS = re.compile(
    r"aten::(select|slice|narrow|unbind|view|reshape|t|transpose|permute|unsqueeze|squeeze|expand|as_strided|detach)$"
)
"""Operations that touch no number, however many their tensor has."""
PACKAGE = "package"
"""The owner of a library's frames: what it does for the loop is no operation's start."""
_WHOLE_MODELS = ("torch/nn/modules/container.py", "torch/nn/modules/transformer.py", "torch/nn/modules/rnn.py")
_CELL = re.compile(r"^aten::\w+_cell$")
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
            forward_s, behind_s = spent.get(loop, 0.0) * seen.forward, loops.backward_s * seen.backward
            cost_s = forward_s + behind_s
            all_s = spent.get(loop, 0.0) + loops.backward_s * seen.backward_all
            is_less = cost_s <= all_s / 2 and not loops.is_of_alike(loop)
            if seen.in_operations < MIN_IN_OPERATIONS or is_less or loops.is_kept(loop, seen):
                continue
            if forward_s <= 0 or cost_s < max(MIN_GAIN * step_s, MIN_COST_S):
                continue
            waste = Waste(
                cause=Cause.SMALL_KERNELS,
                site=f"{loop[0]}:{sites[loop].most_common(1)[0][0]}",
                cost_s=cost_s,
                share=cost_s / step_s,
                ranks=(rank.rank,),
                evidence=(
                    f"{seen.num:.0f} operations a step in the loop at {loop[0]}:{loop[1]}, of which the start of one "
                    f"takes {1e6 * seen.start_s:.0f} us here",
                    f"{1000 * forward_s:.2f} ms of it in the loop, {1000 * behind_s:.2f} ms in its backward",
                ),
            )
            before = best.get(loop)
            ranks = [*(before[1] if before else ()), rank.rank]
            best[loop] = (waste if before is None or before[0].cost_s < cost_s else before[0], ranks)
    return tuple(replace(waste, ranks=tuple(ranks)) for waste, ranks in best.values())


@dataclass(frozen=True, slots=True)
class _Seen:
    """Of a loop in the observed steps: operations a step, what one takes to start, the share of its time that they
    take, the share that is no time of numbers, and of all backward the share that its operations' backward takes beyond
    their numbers, and with them. `repeats`: operations of a kind and shape, of those between two looks that it lasted.
    """

    num: float
    start_s: float
    in_operations: float
    forward: float
    backward: float
    backward_all: float
    has_products: bool
    has_cells: bool
    repeats: float


class _Loops:
    """The loops of a rank's program in which small operations may stand."""

    def __init__(self, rank: RankSamples, sources: Sources) -> None:
        self._rank = rank
        self._sources = sources
        self._known: dict[tuple[Instruction, ...], Loop | None] = {}
        self._carrying: dict[Loop, bool] = {}
        """Whether what goes from turn to turn is the state of what is called alone."""
        self._calling: set[Loop] = set()
        """Loops whose own value is called, as a module of several is."""
        self._trained: set[Line] = set()
        """Lines below which a backward runs."""
        self._stepping: dict[tuple[str, str, int], set[int]] = {}
        """Of the functions that every step ends in: the lines that were seen; 0 where a step was seen outside."""
        self.backward_s = backward_of(rank)
        for sampled in rank.stacks:
            inside = {(place.file, place.function, place.first_line): place.line for place in sampled.stack}
            for known in rank.loop:
                # One that a part of the step is not in, as a class of several optimizers, has no loop of steps.
                self._stepping.setdefault(known, set()).add(inside.get(known, 0))
            if is_backward(sampled):
                self._trained |= {(place.file, place.line) for place in sampled.stack if place.owner == USER}

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
            is_whole = place.file.endswith(_WHOLE_MODELS) and not self._is_of_cell(place)
            if place.function == ENGINE or is_whole or place.owner in (PACKAGE, OURS):
                return None
            if place.owner != USER:
                continue
            loop = _around(self._sources.of(place.file), place)
            if loop is not None:
                if not self._may_be_small(loop, place):
                    return None
                known = self.around(place)
                if known is not None and isinstance(loop, ast.For) and (carries := [*_carried(loop)]):
                    self._carrying[known] = all(carries)
                if known is not None and _calls_its_value(loop):
                    self._calling.add(known)
                return known
            num_inside += 1
            if num_inside > 1:
                return None
        return None

    def is_kept(self, loop: Loop, seen: "_Seen") -> bool:
        """Whether the loop has to be: a turn of it uses what the one before made, other than to add to it.

        What is called in turn, as blocks are, may do so with any operation, and has to do alike to be one call.
        """
        is_called = loop in self._calling
        if loop in self._carrying and not (seen.has_cells and self._carrying[loop]):
            return seen.has_products or is_called
        return is_called and seen.repeats < MIN_ALIKE

    def is_of_alike(self, loop: Loop) -> bool:
        """Whether the loop, unless it has to be, calls modules that do alike: one of all of them does what they do."""
        return loop in self._calling

    def _is_of_cell(self, place: Instruction) -> bool:
        """Whether the instruction is a cell's, ``LSTMCell``, in torch's own text."""
        statement = self._sources.of(place.file).statement_at(place.line)
        above = [] if statement is None else self._sources.of(place.file).above(statement)
        return any(isinstance(each, ast.ClassDef) and each.name.endswith("Cell") for _, each in above)

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
        parts, turning = _turning(loop)
        if is_generator or any(call_name(call) in TRAINS and not _is_step_of(call, turning) for call in calls):
            return False
        over = [each for part in parts for each in ast.walk(part.iter)]
        outside = {each for each in over} | {each for part in parts for each in ast.walk(part.target)}
        return any(isinstance(each, ast.Name) and each.id in turning and each not in outside for each in inside)


def _turning(loop: ast.AST) -> tuple[list[ast.For | ast.comprehension], set[str]]:
    """The heads of a loop, and the names that its turns bind."""
    parts = [loop] if isinstance(loop, ast.For) else [*getattr(loop, "generators", ())]
    return parts, {name for part in parts for name in names_in(part.target)} - {"_"}


def _calls_its_value(loop: ast.AST) -> bool:
    """Whether what a turn binds is called, rather than a method of it."""
    calls = [each for each in ast.walk(loop) if isinstance(each, ast.Call)]
    _, turning = _turning(loop)
    return any(names_in(call.func) & turning and not _is_method_of(call, turning) for call in calls)


def _carried(loop: ast.For) -> Iterator[bool]:
    """Of each statement that reads what the turn before bound, other than to add to it, whether it gives that to a call
    as its state, not as its input."""
    later = {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    later -= names_in(loop.target)
    for statement in _in_order(loop.body):
        if carried := read_in(statement) & later - _added_to(statement):
            call = statement.value if isinstance(statement, ast.Assign) else None
            given = call.args if isinstance(call, ast.Call) else []
            yield len(given) > 1 and not carried & read_in(given[0])
        later -= {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}


def _in_order(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The statements of a block, and of those that hold others what they hold, in their order."""
    for each in block:
        if isinstance(each, ast.stmt | ast.ExceptHandler) and hasattr(each, "body"):
            yield from _in_order(ast.iter_child_nodes(each))
        else:
            yield each


def _added_to(statement: ast.AST) -> set[str]:
    """The name of a sum that goes on, ``total = total + x``, or ``total = total + x + y``."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BinOp):
        return set()
    parts = [*_terms(statement.value)]
    names = {each.id for each in parts if isinstance(each, ast.Name)} & {
        each.id for each in statement.targets if isinstance(each, ast.Name)
    }
    others = [read_in(each) for each in parts if not isinstance(each, ast.Name)]
    return names.difference(*others)


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    """What a sum is of; of what is none, itself."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        yield from (*_terms(value.left), *_terms(value.right))
    else:
        yield value


def _is_method_of(call: ast.Call, turning: set[str]) -> bool:
    """Whether a method of the loop's own value is called, ``image.flip(0)``, or of what it picks, ``x[i].flip(0)``."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(of, ast.Subscript | ast.Attribute | ast.Call):
        of = of.func if isinstance(of, ast.Call) else of.value
    return isinstance(call.func, ast.Attribute) and of is not None


def _is_step_of(call: ast.Call, turning: set[str]) -> bool:
    """Whether the loop's own value takes a step, an optimizer of several."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    return call_name(call) in ("step", "zero_grad") and isinstance(of, ast.Name) and of.id in turning


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
    kernels = _innermost(
        op for op in rank.operations if op.thread == rank.main and not op.is_async and KERNEL.match(op.name)
    )
    starts = [op.ended_s - op.began_s for op in kernels if _is_few(op.shapes)]
    if len(starts) < MIN_STARTS:
        return {}
    start_s = statistics.median(starts)
    behind = _Behind(rank, kernels, start_s)
    begins = [op.began_s for op in kernels]
    cells_s = [op.began_s for op in rank.operations if _CELL.match(op.name)]
    period_s = (rank.looks[-1][0] - rank.looks[0][0]) / max(len(rank.looks) - 1, 1)
    found: dict[Loop, _Seen] = {}
    for loop, (moments, runs) in _runs(rank, loops).items():
        inside: list[Operation] = []
        num_kinds = 0
        for begin_s, end_s in runs:
            of_run = kernels[bisect.bisect_left(begins, begin_s) : bisect.bisect_left(begins, end_s)]
            inside += of_run
            num_kinds += len({(op.name, op.shapes) for op in of_run})
        lasted_s = sum(end_s - begin_s for begin_s, end_s in runs)
        if len(moments) < MIN_LOOKS or not inside or lasted_s <= 0:
            continue
        in_operations_s, numbers_s = _times_s(inside, start_s)
        all_s = len(moments) * period_s
        backward, backward_all = behind.shares_of(moments, inside, all_s)
        found[loop] = _Seen(
            num=len(inside) / lasted_s * all_s / rank.num_steps,
            start_s=start_s,
            in_operations=in_operations_s / lasted_s,
            forward=max(1 - numbers_s / lasted_s, 0.0),
            backward=backward,
            backward_all=backward_all,
            has_products=any(flops_of(op) for op in inside),
            has_cells=any(begin_s <= at_s < end_s for at_s in cells_s for begin_s, end_s in runs),
            repeats=len(inside) / num_kinds,
        )
    return found


def _innermost(operations: Iterable[Operation]) -> list[Operation]:
    """Those that begin no other one, in their order: what others take besides is the start of several."""
    inside = sorted(operations, key=lambda op: (op.began_s, -op.ended_s))
    return [op for op, after in zip_longest(inside, inside[1:]) if after is None or after.began_s >= op.ended_s]


def _is_few(shapes: Sequence[Sequence[int]]) -> bool:
    return max(map(math.prod, shapes), default=0) <= FEW_NUMBERS


def _times_s(operations: Sequence[Operation], start_s: float) -> tuple[float, float]:
    """What they take, and of it what is no start. Of each kind all count as the middle one of it, for what lost its
    processor is no longer than others."""
    kinds: dict[tuple[str, tuple[tuple[int, ...], ...]], list[float]] = defaultdict(list)
    for op in operations:
        kinds[op.name, op.shapes].append(op.ended_s - op.began_s)
    usual = [(name, shapes, len(each), statistics.median(each)) for (name, shapes), each in kinds.items()]
    with_numbers = [each for each in usual if not _is_few(each[1]) and not _VIEWS.match(each[0])]
    numbers_s = sum(num * max(each_s - start_s, 0.0) for _, _, num, each_s in with_numbers)
    return sum(num * each_s for _, _, num, each_s in usual), numbers_s


class _Behind:
    """The nodes of the backward, and what they take that is no time of numbers."""

    def __init__(self, rank: RankOperations, kernels: Sequence[Operation], start_s: float) -> None:
        self._kernels, self._begins = kernels, [op.began_s for op in kernels]
        self._start_s = start_s
        self._bounds_s = rank.bounds_s
        self._nodes = [op for op in rank.operations if op.name.startswith(NODE) and op.sequence >= 0]
        self._all_s = sum(op.ended_s - op.began_s for op in self._nodes)
        self._first: dict[int, int] = {}
        """By step the number of its first operation that a node of the backward belongs to."""
        for op in kernels:
            if op.sequence >= 0:
                self._first.setdefault(self._step_of(op.began_s), op.sequence)

    def shares_of(self, moments: Sequence[float], inside: Sequence[Operation], all_s: float) -> tuple[float, float]:
        """Of all backward, what a loop's takes beyond numbers, and all that it takes.

        `moments`: at which the thread stood in it; `inside`: operations of the loop; `all_s`: what it took. Between
        the first and the last of its operations, counted from a step's first, that were seen in any step, unless
        others stand between them; else of those seen in it alone.
        """
        after = [number for at_s in moments if (number := self._number_near(at_s, 1)) is not None]
        before = [number for at_s in moments if (number := self._number_near(at_s, -1)) is not None]
        made = range(min(after, default=0), max(before, default=-1) + 1)
        began_s = {self._step_of(op.began_s): op.began_s for op in self._kernels if self._number_of(op) in made[:1]}
        ended_s = {self._step_of(op.began_s): op.ended_s for op in self._kernels if self._number_of(op) in made[-1:]}
        spans = [ended_s[step] - began_s[step] for step in began_s if step in ended_s]
        if sum(spans) > 2 * all_s:
            of_loop = {op.sequence for op in inside if op.sequence >= 0}
            return self._shares([op for op in self._nodes if op.sequence in of_loop])
        return self._shares([op for op in self._nodes if self._number_of(op) in made])

    def _step_of(self, at_s: float) -> int:
        return bisect.bisect_right(self._bounds_s, at_s) - 1

    def _number_of(self, op: Operation) -> int:
        """Of an operation or node, counted from the first one of its step; -1 of what has no backward."""
        first = self._first.get(self._step_of(op.began_s))
        return -1 if op.sequence < 0 or first is None else op.sequence - first

    def _number_near(self, moment_s: float, way: int) -> int | None:
        """Of the operation that begins next after a moment (`way` 1), or began last before it (-1)."""
        at = bisect.bisect_right(self._begins, moment_s) - (way < 0)
        while 0 <= at < len(self._kernels) and self._step_of(self._begins[at]) == self._step_of(moment_s):
            if (number := self._number_of(self._kernels[at])) >= 0:
                return number
            at += way
        return None

    def _shares(self, nodes: Sequence[Operation]) -> tuple[float, float]:
        cuts = [op for op in nodes if op.name.removeprefix(NODE).startswith(_CUTS)]
        num_cuts = len(cuts) / max(len(self._bounds_s) - 1, 1)
        kernels: list[Operation] = []
        for op in set(nodes) - set(cuts):
            kernels += self._kernels[
                bisect.bisect_left(self._begins, op.began_s) : bisect.bisect_left(self._begins, op.ended_s)
            ]
        cut_s, whole_s = (sum(op.ended_s - op.began_s for op in each) for each in (cuts, nodes))
        # One gradient of the whole is needed.
        numbers_s = _times_s(kernels, self._start_s)[1] + (cut_s / num_cuts if num_cuts > 1 else cut_s)
        return max(whole_s - numbers_s, 0.0) / max(self._all_s, 1e-9), whole_s / max(self._all_s, 1e-9)


_CUTS = ("SelectBackward", "SliceBackward", "IndexBackward", "NarrowBackward")
"""Nodes that write a gradient into zeros as large as what a part was cut from."""


def _runs(rank: RankOperations, loops: _Loops) -> dict[Loop, tuple[list[float], list[tuple[float, float]]]]:
    """Of each loop the moments of the looks in it, and from which look to which the thread stood in it."""
    found: dict[Loop, tuple[list[float], list[tuple[float, float]]]] = {}
    before: tuple[Loop | None, float, int] = (None, 0.0, -1)
    for at_s, stack in rank.looks:
        step = bisect.bisect_right(rank.bounds_s, at_s) - 1
        loop = loops.of(stack) if 0 <= step < rank.num_steps else None
        if loop is not None:
            moments, runs = found.setdefault(loop, ([], []))
            if before[0] == loop and before[2] == step:
                begun_s = runs.pop()[0] if runs and runs[-1][1] == before[1] else before[1]
                runs.append((begun_s, at_s))
            moments.append(at_s)
        before = loop, at_s, step
    return found
