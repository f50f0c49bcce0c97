"""The statements that one rank's program executed, as a tree: functions, loops by their rounds, and the calls inside.

[Note: executed statements]
Two runs of one program are aligned by structure and not by time: the k-th round of a loop with the k-th round, a
statement with the same statement of the same round (execution indexing: Xin, Sumner, Zhang, PLDI 2008). A place where
one rank executes what the other does not is a divergence of control flow, and the statement before it decided so
(flow differences: Johnson et al., Differential slicing, IEEE S&P 2011).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One statement at `line`. `inner`: functions of the program that ran inside it, and calls, as event indices.

    `is_new`: control went from the statement before to this one for the first time, and had gone elsewhere before.
    """

    line: int
    is_new: bool = False
    inner: tuple["Frame | int", ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop whose header stands at `line`. Each round begins with the header's step; a last one may hold it alone."""

    line: int
    rounds: tuple[tuple["Step | Loop", ...], ...]


Item = Step | Loop


@dataclass(frozen=True, slots=True)
class Frame:
    """One run of a function. `index` of a call counts the rank's events."""

    file: str
    function: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Executed:
    """What one rank executed. `num_real`: its events before the program stopped; what follows is a supposition."""

    program: Frame
    num_real: int


def calls_in(items: Sequence[Item | Frame | int]) -> Iterator[int]:
    """Yields the event indices below `items`, in the order executed."""
    for item in items:
        match item:
            case int():
                yield item
            case Step():
                yield from calls_in(item.inner)
            case Loop():
                for steps in item.rounds:
                    yield from calls_in(steps)
            case Frame():
                yield from calls_in(item.items)


def steps_in(items: Sequence[Item]) -> Iterator[Step]:
    """Yields the statements of a block, those of loops one round after the other."""
    for item in items:
        if isinstance(item, Loop):
            for steps in item.rounds:
                yield from steps_in(steps)
        else:
            yield item


def new_steps(items: Sequence[Item | Frame | int], file: str) -> Iterator[tuple[str, int]]:
    """Yields (file, line of the statement that decided it) for each new step below `items`, in the order executed."""
    before: Item | None = None
    for item in items:
        match item:
            case int():
                continue
            case Frame():
                yield from new_steps(item.items, item.file)
                continue
            case Step():
                if item.is_new:
                    yield file, (before or item).line
                yield from new_steps(item.inner, file)
            case Loop():
                for steps in item.rounds:
                    yield from new_steps(steps, file)
        before = item
