"""A schedule's own time: when each compute starts and when each result has left, in quarters of a forward.

A backward takes twice a forward, each of its parts as long as a forward, and stages are equal, which the built-in
schedules are drawn for. Programs take from it where to wait for what leaves. That they end does not rest on it: see
[Note: a wait that cannot hang]. `perf` predicts real times.

[Note: a wait that cannot hang]
With free transfers, a program of `_program.py` that waits for a result only where it has left by this clock ends,
whatever real computes and transfers take. Give each event its time by the clock. A compute waits for computes that
started earlier; a wait for a result that left waits for a receive that was posted no later, right after a compute that
started earlier. So nothing waits, through any number of events, for itself. Real time changes when, not whether.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from emberward.findings import ConfigError
from emberward.plan._schedule import Action, Schedule, Work

FORWARD, BACKWARD = 4, 8
"""Units of time."""
TRANSFERS = (0, 1, 2, 4)
"""What a transfer may take: nothing, up to as long as a forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """`start` of each compute; `gone`: when each result that another stage needs has left. One time each for TRANSFERS.

    A receive is posted when the compute before the compute before the one that needs it has ended.
    """

    start: Mapping[Action, tuple[int, ...]]
    gone: Mapping[Action, tuple[int, ...]]

    def has_left(self, source: Action, action: Action) -> bool:
        """Whether what `source` made has left when `action` starts, however long a transfer takes up to a forward."""
        return all(gone <= start for gone, start in zip(self.gone[source], self.start[action], strict=True))


def duration_of(action: Action) -> int:
    """Units of time that `action` takes."""
    return BACKWARD if action.work is Work.BACKWARD else FORWARD


@lru_cache(maxsize=16)
def clock_of(schedule: Schedule) -> Clock:
    """The earliest times of `schedule`. Raises ConfigError C109 when its orders wait for each other in a ring."""
    starts = [_starts(schedule, transfer) for transfer in TRANSFERS]
    gone = [_gone(schedule, start, transfer) for start, transfer in zip(starts, TRANSFERS, strict=True)]
    return Clock(
        start={action: tuple(start[action] for start in starts) for action in starts[0]},
        gone={action: tuple(each[action] for each in gone) for action in gone[0]},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One compute on the pipeline rank `pp_rank`, from `start` to `end` in forwards. See the module's text."""

    pp_rank: int
    action: Action
    start: float
    end: float


def spans_of(schedule: Schedule) -> tuple[Span, ...]:
    """Every compute of a step with free transfers, by pipeline rank and time. Raises ConfigError C109 for a ring."""
    start = _starts(schedule, 0)
    return tuple(
        Span(
            pp_rank=rank,
            action=action,
            start=start[action] / FORWARD,
            end=(start[action] + duration_of(action)) / FORWARD,
        )
        for rank, order in enumerate(schedule.orders)
        for action in order
    )


def bubble_of(schedule: Schedule) -> float:
    """Idle time over the time of all ranks, in [0, 1): equal stages, a backward of two forwards, free transfers.

    (p - 1) / (v m + p - 1) for GPipe, 1F1B (v 1) and interleaved 1F1B (Narayanan et al. 2021, section 2.2). Raises
    ConfigError C109 when the orders wait for each other in a ring.
    """
    start = _starts(schedule, 0)
    busy = sum(duration_of(action) for action in start)
    end = max(start[order[-1]] + duration_of(order[-1]) for order in schedule.orders)
    return 1 - busy / (end * schedule.num_ranks)


def _starts(schedule: Schedule, transfer: int) -> dict[Action, int]:
    start: dict[Action, int] = {}
    at, free = [0] * schedule.num_ranks, [0] * schedule.num_ranks
    left = sum(map(len, schedule.orders))
    while left:
        before = left
        for rank, order in enumerate(schedule.orders):
            while at[rank] < len(order):
                action = order[at[rank]]
                needs = schedule.needs_of(action)
                if any(need not in start for need in needs):
                    break
                travel = {need: 0 if schedule.rank_of(need.stage) == rank else transfer for need in needs}
                start[action] = max([free[rank], *(start[each] + duration_of(each) + travel[each] for each in needs)])
                free[rank] = start[action] + duration_of(action)
                at[rank] += 1
                left -= 1
        if left == before:
            raise _ring(schedule, at)
    return start


def _gone(schedule: Schedule, start: Mapping[Action, int], transfer: int) -> dict[Action, int]:
    posted: dict[Action | None, int] = {}
    for order in schedule.orders:
        ends = [0, 0, *(start[action] + duration_of(action) for action in order)]
        posted |= dict(zip(order, ends, strict=False))
    gone = {}
    for action, begin in start.items():
        target = schedule.target(action)
        if target in posted:
            gone[action] = max(begin + duration_of(action), posted[target]) + transfer
    return gone


def _ring(schedule: Schedule, at: list[int]) -> ConfigError:
    stuck = [f"rank {rank} at {order[at[rank]]}" for rank, order in enumerate(schedule.orders) if at[rank] < len(order)]
    return ConfigError(
        f"schedule {schedule.name}: the ranks wait for each other",
        code="C109",
        where=stuck[0],
        expected="an order in which each compute comes after those whose results it needs",
        found="; ".join(stuck[:8]),
        next="move the first compute of a stage in front of those that wait for it",
    )
