"""Results that travel between pipeline ranks, and the order in which they are launched on a device.

[Note: launches]
A receive that is posted one compute early hides its transfer. But then two ranks that exchange a result and a gradient
each post their receive first: on a device that runs one call at a time, neither send would ever start. Each channel is
right by itself, and gloo, whose channels do not share a device, runs this way (`Launches.EARLY`). NCCL wants one order
of all calls on all ranks (`_device_order.py`): with `Launches.ONE_ORDER` every rank launches its sends and receives in
the order in which the computes that need them start, by the schedule's clock with free transfers. Two launches of a
rank never change places; a receive is posted early where that order allows, else right before its compute. So the
precedence graph has one order by construction, and `check` verifies it on what the dry run recorded. What it costs:
docs/preflight.md.
"""

from dataclasses import dataclass
from enum import StrEnum

from emberward.plan._clock import clock_of
from emberward.plan._schedule import Action, Schedule, Work


class Launches(StrEnum):
    """When receives are posted. See [Note: launches]."""

    EARLY = "early"
    ONE_ORDER = "one order"


@dataclass(frozen=True, slots=True)
class Edge:
    """A result that travels: made by `source`, needed by `target`, between two pipeline ranks."""

    source: Action
    target: Action
    sender: int
    receiver: int


def edge_after(schedule: Schedule, action: Action) -> Edge | None:
    """The edge that carries `action`'s result to another rank; None when it stays or leaves nothing."""
    target = schedule.target(action)
    if target is None:
        return None
    sender, receiver = schedule.rank_of(action.stage), schedule.rank_of(target.stage)
    return None if sender == receiver else Edge(action, target, sender, receiver)


def channels(schedule: Schedule) -> dict[tuple[int, int], list[Edge]]:
    """Edges of each ordered pair of pipeline ranks in the order in which the sender makes them."""
    channels: dict[tuple[int, int], list[Edge]] = {}
    for order in schedule.orders:
        for action in order:
            edge = edge_after(schedule, action)
            if edge is not None:
                channels.setdefault((edge.sender, edge.receiver), []).append(edge)
    return channels


def launch_order(schedule: Schedule, pp_rank: int) -> list[Edge]:
    """The sends and receives of a rank in the one order that all ranks share. See [Note: launches]."""
    start = clock_of(schedule).start

    def place(edge: Edge) -> tuple[int, bool, int, int]:
        target = edge.target
        return start[target][0], target.work is not Work.FORWARD, target.stage, target.mb

    found = (edge_after(schedule, action) for order in schedule.orders for action in order)
    own = [edge for edge in found if edge is not None and pp_rank in (edge.sender, edge.receiver)]
    return sorted(own, key=place)


def has_left(schedule: Schedule, source: Action, action: Action, launches: Launches) -> bool:
    """Whether what `source` made has surely left when `action` starts on the same rank, by the schedule's clock."""
    clock = clock_of(schedule)
    if launches is Launches.EARLY:
        return clock.has_left(source, action)
    edge = edge_after(schedule, source)
    assert edge is not None, f"{source} does not leave its rank"
    return all(need <= begin for need, begin in zip(clock.start[edge.target], clock.start[action], strict=True))
