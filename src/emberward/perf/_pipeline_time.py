"""When each action of a schedule starts and ends, given what each costs: the longest path through the schedule.

Whether a schedule can dead-lock is not asked here (that is `match`'s); one that cannot go on raises ValueError.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Part(StrEnum):
    """A part of a micro-batch's work on a stage: forward; backward whole, or the gradient of the input and those of the
    weights apart."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT = "I"
    WEIGHT = "W"


class Slot(NamedTuple):
    """`part` of the work of `stage` on micro-batch `mb`, a place in a pipeline rank's order.

    A tuple, because walks hash hundreds of thousands of them.
    """

    stage: int
    part: Part
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
    transfer_s: Callable[[Slot], float],
    is_blocking: bool,
    earliest_s: Mapping[Slot, float] | None = None,
) -> Timeline:
    """The timeline of `orders`, one a pipeline rank, in which each slot starts as early as its inputs allow.

    A slot's result that goes to another rank arrives `transfer_s(slot)` after the slot ended; with `is_blocking` sender
    and receiver do nothing else meanwhile. A slot ends no earlier than `earliest_s` says.
    """
    earliest_s = earliest_s or {}
    holder = {slot.stage: rank for rank, order in enumerate(orders) for slot in order}
    last_stage = max(holder)
    split = {(slot.stage, slot.mb) for order in orders for slot in order if slot.part is Part.INPUT}
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
                inputs = _inputs(slot, last_stage, split)
                if any(need not in end_s for need in inputs):
                    break
                ready, taken_s = _arrival(inputs, end_s, holder, rank, transfer_s)
                start = max(clock[rank], ready)
                if is_blocking and taken_s:
                    start = max(ready, clock[rank] + taken_s)
                end_s[slot] = max(start + cost_s(slot), earliest_s.get(slot, 0.0))
                busy[rank] += end_s[slot] - start
                clock[rank] = end_s[slot]
                if is_blocking and _leaves(slot, last_stage, holder, rank):
                    clock[rank] += transfer_s(slot)
                at[rank] += 1
                left -= 1
        if left == before:
            raise ValueError("the schedule cannot go on: every rank waits for a result of another")
    return Timeline(end_s=end_s, busy_s=tuple(busy))


def _inputs(slot: Slot, last_stage: int, split: set[tuple[int, int]]) -> list[Slot]:
    if slot.part is Part.FORWARD:
        return [] if slot.stage == 0 else [Slot(slot.stage - 1, Part.FORWARD, slot.mb)]
    if slot.part is Part.WEIGHT:
        return [Slot(slot.stage, Part.INPUT, slot.mb)]
    own = Slot(slot.stage, Part.FORWARD, slot.mb)
    after = slot.stage + 1
    part = Part.INPUT if (after, slot.mb) in split else Part.BACKWARD
    return [own] if slot.stage == last_stage else [own, Slot(after, part, slot.mb)]


def _arrival(
    inputs: list[Slot],
    end_s: dict[Slot, float],
    holder: dict[int, int],
    rank: int,
    transfer_s: Callable[[Slot], float],
) -> tuple[float, float]:
    """When all inputs are on a rank, and the seconds of the longest that had to travel."""
    ready, taken_s = 0.0, 0.0
    for need in inputs:
        travel_s = transfer_s(need) if holder[need.stage] != rank else 0.0
        taken_s = max(taken_s, travel_s)
        ready = max(ready, end_s[need] + travel_s)
    return ready, taken_s


def _leaves(slot: Slot, last_stage: int, holder: dict[int, int], rank: int) -> bool:
    if slot.part is Part.WEIGHT:
        return False
    after = slot.stage + (1 if slot.part is Part.FORWARD else -1)
    return 0 <= after <= last_stage and holder[after] != rank
