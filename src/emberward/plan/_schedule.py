"""Pipeline schedules as values: for every pipeline rank the order of its forwards and backwards.

[Note: a backward in parts]
The backward of a micro-batch on a stage is one action (B) or two: I gives the gradient of the stage's input, on which
the stage before waits, and W the gradients of the layers' weights, for which nobody waits before the step's end. What
W needs stays in memory between the two. Papers name them differently: B of Qi et al. 2023 (zero bubble) is I here, B of
DualPipe is I and W.

The text of an action is torch's (``2F0``, ``3B1``, ``1I4``, ``1W4``; torch/distributed/pipelining/schedules.py, 2.13),
so that a schedule can be written to and read from torch's compute-only CSV: one row a rank, one action a cell, an empty
cell where the rank is idle, and ``(0F1;3B0)OVERLAP_F_B`` for a pair that may run at once.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from emberward.findings import ConfigError


class Work(StrEnum):
    """What a stage does with a micro-batch. See [Note: a backward in parts]."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT = "I"
    WEIGHT = "W"


_ACTION = re.compile(r"(\d+)([FBIW])(\d+)")
_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """`work` of `stage` on micro-batch `mb`, both counted from 0. Its text is e.g. ``2F0``."""

    stage: int
    work: Work
    mb: int

    def __str__(self) -> str:
        return f"{self.stage}{self.work.value}{self.mb}"

    @classmethod
    def from_text(cls, text: str) -> "Action":
        """The action that `text` names. Raises ValueError otherwise."""
        found = _ACTION.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"expected an action such as 0F0, 1B3, 1I3 or 1W3, found {text!r}")
        return cls(int(found[1]), Work(found[2]), int(found[3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The order of work of each pipeline rank.

    `stage_ranks` is the pipeline rank of each stage; left empty, stage s lies on rank s mod num_ranks. `pairs` are
    actions that follow one another in an order, of which one is a forward, and that a rank may run at once.
    """

    name: str
    num_stages: int
    num_mb: int
    orders: tuple[tuple[Action, ...], ...]
    stage_ranks: tuple[int, ...] = ()
    pairs: frozenset[tuple[Action, Action]] = frozenset()
    split: frozenset[tuple[int, int]] = field(init=False, repr=False, compare=False)
    """(stage, micro-batch) of each backward in two parts."""
    _hash: int = field(init=False, repr=False, compare=False)
    """Caches ask for it at every look-up, and the orders of a large schedule take long to hash."""

    def __post_init__(self) -> None:
        if not self.stage_ranks:
            object.__setattr__(self, "stage_ranks", tuple(stage % self.num_ranks for stage in range(self.num_stages)))
        inputs = (action for order in self.orders for action in order if action.work is Work.INPUT)
        object.__setattr__(self, "split", frozenset((action.stage, action.mb) for action in inputs))
        object.__setattr__(self, "_hash", hash((self.name, self.num_mb, self.orders, self.stage_ranks)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def num_ranks(self) -> int:
        """Number of pipeline ranks."""
        return len(self.orders)

    def rank_of(self, stage: int) -> int:
        """The pipeline rank that holds `stage`."""
        return self.stage_ranks[stage]

    def stages_of(self, pp_rank: int) -> tuple[int, ...]:
        """Stages that `pp_rank` holds, ascending."""
        return tuple(stage for stage, holder in enumerate(self.stage_ranks) if holder == pp_rank)

    def backward(self, stage: int, mb: int) -> Action:
        """What gives the gradient of the input of `stage` for micro-batch `mb`: B, or I where the backward is split."""
        return Action(stage, Work.INPUT if (stage, mb) in self.split else Work.BACKWARD, mb)

    def target(self, action: Action) -> Action | None:
        """The action of the next or the previous stage that needs the result of `action`; None when none does."""
        if action.work is Work.WEIGHT:
            return None
        if action.work is Work.FORWARD:
            stage = action.stage + 1
            return Action(stage, Work.FORWARD, action.mb) if stage < self.num_stages else None
        return self.backward(action.stage - 1, action.mb) if action.stage > 0 else None

    def needs_of(self, action: Action) -> list[Action]:
        """The actions whose results `action` needs, those of its own rank first."""
        if action.work is Work.FORWARD:
            return [] if action.stage == 0 else [Action(action.stage - 1, Work.FORWARD, action.mb)]
        if action.work is Work.WEIGHT:
            return [Action(action.stage, Work.INPUT, action.mb)]
        own = Action(action.stage, Work.FORWARD, action.mb)
        is_last = action.stage == self.num_stages - 1
        return [own] if is_last else [own, self.backward(action.stage + 1, action.mb)]

    def cells(self, pp_rank: int) -> list[str]:
        """The order of `pp_rank` as text, a cell for each action or pair."""
        cells: list[str] = []
        order = iter(pairwise([*self.orders[pp_rank], None]))
        for action, after in order:
            if (action, after) in self.pairs:
                cells.append(f"({action};{after})OVERLAP_F_B")
                next(order, None)
            else:
                cells.append(str(action))
        return cells

    def __str__(self) -> str:
        return "\n".join(f"rank {rank}: " + " ".join(self.cells(rank)) for rank in range(self.num_ranks))

    def to_csv(self) -> str:
        """The orders in torch's compute-only CSV."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.cells(rank) for rank in range(self.num_ranks)])
        return out.getvalue()


def schedule_from_csv(text: str, *, name: str = "csv") -> Schedule:
    """The schedule in torch's compute-only CSV; a stage lies on the rank that works on it.

    Raises ConfigError C109 when it is not complete and ordered.
    """
    orders: list[tuple[Action, ...]] = []
    pairs: set[tuple[Action, Action]] = set()
    for row_number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        try:
            cells = [_actions_of(cell) for cell in row if cell.strip()]
        except ValueError as error:
            raise ConfigError(
                "the schedule's CSV cannot be read",
                code="C109",
                where=f"{name}, row {row_number}",
                expected="cells such as 0F0, 1B3, 1I3, 1W3 or (0F1;3B0)OVERLAP_F_B, one row a pipeline rank",
                found=str(error).rpartition("found ")[2],
            ) from error
        pairs |= {(cell[0], cell[1]) for cell in cells if len(cell) == 2}
        orders.append(tuple(action for cell in cells for action in cell))
    if not any(orders):
        raise ConfigError("the schedule's CSV is empty", code="C109", where=name, expected="one row a pipeline rank")
    schedule = Schedule(
        name=name,
        num_stages=1 + max(action.stage for order in orders for action in order),
        num_mb=1 + max(action.mb for order in orders for action in order),
        orders=tuple(orders),
        stage_ranks=_stage_ranks(orders, name),
        pairs=frozenset(pairs),
    )
    require_complete(schedule)
    return schedule


def _actions_of(cell: str) -> tuple[Action, ...]:
    """The action of a cell, or the two of a pair. Raises ValueError for any other text."""
    pair = _PAIR.fullmatch(cell.strip())
    if pair is None:
        return (Action.from_text(cell),)
    first, second = Action.from_text(pair[1]), Action.from_text(pair[2])
    is_forward = (first.work is Work.FORWARD, second.work is Work.FORWARD)
    if is_forward[0] == is_forward[1] or Work.WEIGHT in (first.work, second.work):
        raise ValueError(f"expected a forward and a backward, found {cell.strip()!r}")
    return first, second


def _stage_ranks(orders: Sequence[Sequence[Action]], name: str) -> tuple[int, ...]:
    """The rank that works on each stage. Raises ConfigError C109 when two do, none does, or a rank has no work."""
    ranks: dict[int, int] = {}
    for rank, order in enumerate(orders):
        if not order:
            raise _misplaced(name, f"pipeline rank {rank} has no work", f"an empty row {rank + 1}")
        for action in order:
            if ranks.setdefault(action.stage, rank) != rank:
                found = f"{action} on rank {rank}, others of stage {action.stage} on rank {ranks[action.stage]}"
                raise _misplaced(name, f"no stage map allows it: stage {action.stage} lies on two ranks", found)
    missing = [stage for stage in range(max(ranks)) if stage not in ranks]
    if missing:
        raise _misplaced(name, f"stage {missing[0]} lies on no rank", f"stages {sorted(ranks)}")
    return tuple(ranks[stage] for stage in range(len(ranks)))


def _misplaced(name: str, problem: str, found: str) -> ConfigError:
    return ConfigError(
        f"schedule {name}: {problem}",
        code="C109",
        where="schedule",
        expected="stages 0, 1, 2, ... with all actions of a stage in the row of one rank",
        found=found,
    )


def require_complete(schedule: Schedule) -> None:
    """Raises ConfigError C109 unless each stage does on each micro-batch, on its own rank and once, a forward and then
    a backward, whole (B) or in two parts (I, then W). Whether the order can dead-lock is for `match` to say."""
    for rank, order in enumerate(schedule.orders):
        stages = schedule.stages_of(rank)
        problem = next(_problems(order, stages, schedule.num_mb), None)
        if problem is not None:
            raise ConfigError(
                f"schedule {schedule.name}: {problem}",
                code="C109",
                where=f"pipeline rank {rank}",
                expected=f"for each micro-batch of stages {list(stages)} once F, and after it once B, or I and then W",
                found=" ".join(schedule.cells(rank)),
            )


_BEFORE = {
    Work.BACKWARD: (Work.FORWARD, "forward"),
    Work.INPUT: (Work.FORWARD, "forward"),
    Work.WEIGHT: (Work.INPUT, "input part"),
}


def _problems(order: Iterable[Action], stages: Sequence[int], num_mb: int) -> Iterator[str]:
    seen: set[Action] = set()
    for action in order:
        if action.stage not in stages or action.mb >= num_mb:
            yield f"{action} does not belong here"
        if action in seen:
            yield f"{action} stands twice"
        other = Work.INPUT if action.work is Work.BACKWARD else Work.BACKWARD
        is_backward = action.work in (Work.BACKWARD, Work.INPUT)
        if is_backward and Action(action.stage, other, action.mb) in seen:
            yield f"{action} is a second backward beside {Action(action.stage, other, action.mb)}"
        if action.work in _BEFORE:
            before, what = _BEFORE[action.work]
            if Action(action.stage, before, action.mb) not in seen:
                yield f"{action} stands before its {what}"
        seen.add(action)
    for stage in stages:
        for mb in range(num_mb):
            yield from _missing(stage, mb, seen)


def _missing(stage: int, mb: int, seen: set[Action]) -> Iterator[str]:
    if Action(stage, Work.FORWARD, mb) not in seen:
        yield f"{stage}F{mb} is missing"
    if Action(stage, Work.BACKWARD, mb) in seen:
        return
    if Action(stage, Work.INPUT, mb) not in seen:
        yield f"{stage}B{mb} is missing"
    elif Action(stage, Work.WEIGHT, mb) not in seen:
        yield f"{stage}W{mb} is missing"
