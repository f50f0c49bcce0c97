"""When each action of a schedule starts and ends, given what each costs: the longest path through the schedule.

Whether a schedule can dead-lock is not asked here (that is `match`'s); one that cannot go on raises ValueError.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Slot(NamedTuple):
    """Forward or backward of `stage` on micro-batch `mb`, a place in a pipeline rank's order.

    A tuple, because walks hash hundreds of thousands of them.
    """

    stage: int
    is_backward: bool
    mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`end_s` of each slot, and by pipeline rank the seconds in which it computed."""

    end_s: dict[Slot, float]
    busy_s: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """When the last slot ends."""
        return max(self.end_s.values())

    @property
    def bubble(self) -> float:
        """Share of the ranks' time that is idle, in [0, 1)."""
        return 1.0 - sum(self.busy_s) / (len(self.busy_s) * self.seconds)


def run_schedule(
    orders: Sequence[Sequence[Slot]],
    *,
    cost_s: Callable[[Slot], float],
    transfer_s: float,
    is_blocking: bool,
) -> Timeline:
    """The timeline of `orders`, one a pipeline rank, in which each slot starts as early as its inputs allow.

    A result that goes to another rank arrives `transfer_s` after its slot ended; with `is_blocking` sender and
    receiver do nothing else meanwhile.
    """
    holder = {slot.stage: rank for rank, order in enumerate(orders) for slot in order}
    last_stage = max(holder)
    end_s: dict[Slot, float] = {}
    clock = [0.0] * len(orders)
    busy = [0.0] * len(orders)
    at = [0] * len(orders)
    left = sum(map(len, orders))
    while left:
        before = left
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                slot = order[at[rank]]
                inputs = _inputs(slot, last_stage)
                if any(need not in end_s for need in inputs):
                    break
                ready, waits = _arrival(slot, inputs, end_s, holder, rank, transfer_s)
                start = max(clock[rank], ready)
                if is_blocking and waits:
                    start = max(ready, clock[rank] + transfer_s)
                seconds = cost_s(slot)
                end_s[slot] = start + seconds
                busy[rank] += seconds
                clock[rank] = end_s[slot]
                if is_blocking and _leaves(slot, last_stage, holder, rank):
                    clock[rank] += transfer_s
                at[rank] += 1
                left -= 1
        if left == before:
            raise ValueError("the schedule cannot go on: every rank waits for a result of another")
    return Timeline(end_s=end_s, busy_s=tuple(busy))


def _inputs(slot: Slot, last_stage: int) -> list[Slot]:
    if not slot.is_backward:
        return [] if slot.stage == 0 else [Slot(slot.stage - 1, False, slot.mb)]
    own = Slot(slot.stage, False, slot.mb)
    return [own] if slot.stage == last_stage else [own, Slot(slot.stage + 1, True, slot.mb)]


def _arrival(
    slot: Slot, inputs: list[Slot], end_s: dict[Slot, float], holder: dict[int, int], rank: int, transfer_s: float
) -> tuple[float, bool]:
    """When all inputs of `slot` are on its rank, and whether one of them had to travel."""
    ready, travels = 0.0, False
    for need in inputs:
        is_far = holder[need.stage] != rank
        travels = travels or is_far
        ready = max(ready, end_s[need] + (transfer_s if is_far else 0.0))
    return ready, travels


def _leaves(slot: Slot, last_stage: int, holder: dict[int, int], rank: int) -> bool:
    after = slot.stage + (-1 if slot.is_backward else 1)
    return 0 <= after <= last_stage and holder[after] != rank
