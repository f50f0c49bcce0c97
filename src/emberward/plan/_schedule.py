"""Pipeline schedules as values: for every pipeline rank the order of its forwards and backwards.

The text of an action is torch's (``2F0``, ``3B1``; torch/distributed/pipelining/schedules.py, 2.13), so that a
schedule can be written to and read from torch's compute-only CSV: one row a rank, one action a cell.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from emberward.findings import ConfigError


class Work(StrEnum):
    """What a stage does with a micro-batch."""

    FORWARD = "F"
    BACKWARD = "B"


_ACTION = re.compile(r"(\d+)(F|B)(\d+)")


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
            raise ValueError(f"expected an action such as 0F0 or 1B3, found {text!r}")
        return cls(int(found[1]), Work(found[2]), int(found[3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The order of work of each pipeline rank. Stage s lies on rank s mod num_ranks."""

    name: str
    num_stages: int
    num_mb: int
    orders: tuple[tuple[Action, ...], ...]

    @property
    def num_ranks(self) -> int:
        """Number of pipeline ranks."""
        return len(self.orders)

    def rank_of(self, stage: int) -> int:
        """The pipeline rank that holds `stage`."""
        return stage % self.num_ranks

    def stages_of(self, pp_rank: int) -> tuple[int, ...]:
        """Stages that `pp_rank` holds, ascending."""
        return tuple(range(pp_rank, self.num_stages, self.num_ranks))

    def __str__(self) -> str:
        return "\n".join(f"rank {rank}: " + " ".join(map(str, order)) for rank, order in enumerate(self.orders))

    def to_csv(self) -> str:
        """The orders in torch's compute-only CSV."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([map(str, order) for order in self.orders])
        return out.getvalue()


def schedule_from_csv(text: str, *, name: str = "csv") -> Schedule:
    """The schedule in torch's compute-only CSV. Raises ConfigError C109 when it is not complete and ordered."""
    orders: list[tuple[Action, ...]] = []
    for row_number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        try:
            orders.append(tuple(Action.from_text(cell) for cell in row if cell.strip()))
        except ValueError as error:
            raise ConfigError(
                "the schedule's CSV cannot be read",
                code="C109",
                where=f"row {row_number}",
                expected="cells such as 0F0 or 1B3, one row a pipeline rank",
                found=str(error).rpartition("found ")[2],
            ) from error
    actions = [action for order in orders for action in order]
    if not actions:
        raise ConfigError("the schedule's CSV is empty", code="C109", expected="one row a pipeline rank")
    schedule = Schedule(
        name=name,
        num_stages=1 + max(action.stage for action in actions),
        num_mb=1 + max(action.mb for action in actions),
        orders=tuple(orders),
    )
    require_complete(schedule)
    return schedule


def require_complete(schedule: Schedule, *, works: Iterable[Work] = (Work.FORWARD, Work.BACKWARD)) -> None:
    """Raises ConfigError C109 unless each stage does each of `works` on each micro-batch once, on its own rank,
    and a forward before its backward. Whether the order can dead-lock is for `match` to say."""
    works = tuple(works)
    for rank, order in enumerate(schedule.orders):
        expected = {
            Action(stage, work, mb)
            for stage in schedule.stages_of(rank)
            for work in works
            for mb in range(schedule.num_mb)
        }
        problem = _first_problem(order, expected)
        if problem is not None:
            raise ConfigError(
                f"schedule {schedule.name}: {problem}",
                code="C109",
                where=f"pipeline rank {rank}",
                expected=f"each forward and backward of stages {list(schedule.stages_of(rank))} once, "
                "a forward before its backward",
                found=" ".join(map(str, order)),
            )


def _first_problem(order: tuple[Action, ...], expected: set[Action]) -> str | None:
    seen: set[Action] = set()
    for action in order:
        if action not in expected:
            return f"{action} does not belong here"
        if action in seen:
            return f"{action} stands twice"
        if action.work is Work.BACKWARD and Action(action.stage, Work.FORWARD, action.mb) not in seen:
            return f"{action} stands before its forward"
        seen.add(action)
    missing = sorted(expected - seen)
    return f"{missing[0]} is missing" if missing else None


def gpipe(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """All forwards, then all backwards (Huang et al. 2019). With more stages a rank: looped, breadth first."""
    num_stages = num_ranks * stages_per_rank
    orders = []
    for rank in range(num_ranks):
        stages = range(rank, num_stages, num_ranks)
        forwards = [Action(stage, Work.FORWARD, mb) for stage in stages for mb in range(num_mb)]
        backwards = [Action(stage, Work.BACKWARD, mb) for stage in reversed(stages) for mb in range(num_mb)]
        orders.append((*forwards, *backwards))
    return Schedule(name="gpipe", num_stages=num_stages, num_mb=num_mb, orders=tuple(orders))


def one_f_one_b(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """Warm-up forwards, then one forward and one backward in turn (Narayanan et al. 2019, PipeDream-Flush)."""
    if stages_per_rank != 1:
        raise ConfigError(
            "schedule 1f1b holds one stage a rank",
            code="C104",
            where="layout.stages_per_rank",
            expected="1",
            found=str(stages_per_rank),
            next="schedule=interleaved",
        )
    orders = []
    for rank in range(num_ranks):
        warm = min(num_ranks - rank - 1, num_mb)
        orders.append(_alternate([(rank, mb) for mb in range(num_mb)], [(rank, mb) for mb in range(num_mb)], warm))
    return Schedule(name="1f1b", num_stages=num_ranks, num_mb=num_mb, orders=tuple(orders))


def interleaved(num_ranks: int, num_mb: int, stages_per_rank: int = 2) -> Schedule:
    """Interleaved 1F1B (Narayanan et al. 2021, section 2.2). `num_mb` must be a multiple of `num_ranks`."""
    if num_mb % num_ranks:
        legal = max(num_ranks, num_mb // num_ranks * num_ranks)
        raise ConfigError(
            "schedule interleaved needs whole rounds of micro-batches",
            code="C104",
            where="batch.accumulation",
            expected=f"a multiple of layout.pp={num_ranks}, e.g. {legal} or {legal + num_ranks}",
            found=str(num_mb),
        )
    orders = []
    for rank in range(num_ranks):
        forwards = list(_interleaved_units(rank, num_ranks, num_mb, stages_per_rank, reverse=False))
        backwards = list(_interleaved_units(rank, num_ranks, num_mb, stages_per_rank, reverse=True))
        warm = min((num_ranks - rank - 1) * 2 + (stages_per_rank - 1) * num_ranks, len(forwards))
        orders.append(_alternate(forwards, backwards, warm))
    return Schedule(name="interleaved", num_stages=num_ranks * stages_per_rank, num_mb=num_mb, orders=tuple(orders))


def _interleaved_units(
    rank: int, num_ranks: int, num_mb: int, chunks: int, *, reverse: bool
) -> Iterator[tuple[int, int]]:
    """(stage, micro-batch) in the order in which a rank runs one direction of the interleaved schedule."""
    for first in range(0, num_mb, num_ranks):
        for chunk in reversed(range(chunks)) if reverse else range(chunks):
            for mb in range(first, first + num_ranks):
                yield chunk * num_ranks + rank, mb


def _alternate(forwards: list[tuple[int, int]], backwards: list[tuple[int, int]], num_warm: int) -> tuple[Action, ...]:
    """`num_warm` forwards, then a forward and a backward in turn, then the backwards that are left."""
    order = [Action(stage, Work.FORWARD, mb) for stage, mb in forwards[:num_warm]]
    steady = len(forwards) - num_warm
    for index in range(len(backwards)):
        if index < steady:
            stage, mb = forwards[num_warm + index]
            order.append(Action(stage, Work.FORWARD, mb))
        stage, mb = backwards[index]
        order.append(Action(stage, Work.BACKWARD, mb))
    return tuple(order)


def forward_only(num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> Schedule:
    """Forwards alone, as evaluation and sampling run them: breadth first over the stages of a rank."""
    num_stages = num_ranks * stages_per_rank
    orders = tuple(
        tuple(Action(stage, Work.FORWARD, mb) for stage in range(rank, num_stages, num_ranks) for mb in range(num_mb))
        for rank in range(num_ranks)
    )
    return Schedule(name="forward_only", num_stages=num_stages, num_mb=num_mb, orders=orders)


SCHEDULES: dict[str, Callable[[int, int, int], Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
}


def bubble_fraction(*, num_ranks: int, num_mb: int, stages_per_rank: int = 1) -> float:
    """Idle time over step time of GPipe, 1F1B (stages_per_rank 1) or interleaved 1F1B, in [0, 1).

    (p - 1) / (v m + p - 1). Assumes equal stages and free communication. Source: Narayanan et al. 2021, section 2.2.
    """
    return (num_ranks - 1) / (stages_per_rank * num_mb + num_ranks - 1)
