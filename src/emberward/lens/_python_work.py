"""Where a program's own Python takes time beside its model. Pure.

[Note: Python's work]
What Python, or a library that knows no tensors, computes in the loop, no rule knows the use of and the loss is not
computed from, as far as the text shows, is `python_work`: the model stands meanwhile, and it could be done beside or in
fewer steps. What is below one statement is one: the
outermost statement, of the loop or of a function that it calls, most of whose time that is, and which is not all of the
step. It is told at the line of the program in which most of it is, else at the statement.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from emberward.findings import Cause
from emberward.lens._batches import is_of_python
from emberward.lens._causes import MAX_BUSY, Told, frames_in_loop
from emberward.lens._samples import OURS, USER, Instruction, RankSamples, Sampled
from emberward.lens._source import Line, Sources
from emberward.lens._trains import may_train

MOST = 0.5


def with_python_work(rank: RankSamples, told: Sequence[Told | None], sources: Sources) -> tuple[Told | None, ...]:
    """What was told of each of the rank's stacks, and what they are of Python's work where nothing was."""
    frames = [_frames(sampled, rank) for sampled in rank.stacks]
    seconds = [sum(wall for wall, _ in sampled.steps.values()) for sampled in rank.stacks]
    is_own = [
        known is None and _is_own(sampled, inside, rank, sources)
        for known, sampled, inside in zip(told, rank.stacks, frames, strict=True)
    ]
    if not any(is_own):
        return tuple(told)
    around = [tuple(dict.fromkeys(_statements(inside, sources))) for inside in frames]
    whole: dict[Line, float] = defaultdict(float)
    own: dict[Line, float] = defaultdict(float)
    for statements, spent, is_python in zip(around, seconds, is_own, strict=True):
        for each in statements:
            whole[each] += spent
            own[each] += spent * is_python
    parts = {each for each, spent in own.items() if MOST * whole[each] < spent and whole[each] < sum(seconds)}
    outermost = [
        next((each for each in reversed(statements) if each in parts), None) if is_python else None
        for statements, is_python in zip(around, is_own, strict=True)
    ]
    lines: dict[Line, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for at, inside, spent in zip(outermost, frames, seconds, strict=True):
        if at is not None:
            lines[at][_innermost(inside).site] += spent
    sites = {at: _site_of(at, spent) for at, spent in lines.items()}
    return tuple(
        known if at is None else Told(cause=Cause.PYTHON_WORK, site=sites[at])
        for known, at in zip(told, outermost, strict=True)
    )


def _frames(sampled: Sampled, rank: RankSamples) -> list[Instruction]:
    """The stack from where the loop stands on, innermost first; of ours nothing."""
    loop, inside = frames_in_loop(tuple(place for place in sampled.stack if place.owner != OURS), rank)
    return inside if loop is None else [*inside, loop]


def _is_own(sampled: Sampled, frames: Sequence[Instruction], rank: RankSamples, sources: Sources) -> bool:
    """Whether the thread computes there in the program's own Python, and not for the loss."""
    wall = sum(wall for wall, _ in sampled.steps.values())
    is_busy = not rank.has_cpu_time or sum(cpu for _, cpu in sampled.steps.values()) > MAX_BUSY * wall
    if not is_busy or sampled.flag or all(place.owner != USER for place in frames):
        return False
    return is_of_python(frames, sources, rank.shares) and not may_train(frames, sources, is_sure=True)


def _innermost(frames: Sequence[Instruction]) -> Instruction:
    return next(place for place in frames if place.owner == USER)


def _site_of(statement: Line, spent: dict[str, float]) -> str:
    """The line that has most of what is spent below a statement, else that of the statement."""
    longest = max(spent, key=lambda each: spent[each])
    return longest if spent[longest] > MOST * sum(spent.values()) else f"{statement[0]}:{statement[1]}"


def _statements(frames: Sequence[Instruction], sources: Sources) -> Iterator[Line]:
    """File and first line of the program's statements around a stack, the innermost first."""
    for place in frames:
        source = sources.of(place.file)
        node = source.node_at(place) if place.owner == USER else None
        for each in [] if node is None else [node, *(parent for _, parent in source.above(node))]:
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                break
            if isinstance(each, ast.stmt):
                yield place.file, each.lineno
