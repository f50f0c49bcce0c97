"""Which parameters ZeRO-3 keeps gathered from one compute of a rank to the next.

[Note: kept for the next compute]
A pass over a stage's layers holds two of them gathered, the one that computes and the one that is fetched, and what the
stage holds beside its layers. Where a rank's next compute is one of the same stage in the other direction, the two
layers with which a pass ends are those with which the next one begins; so they stay, at no cost in memory, and are not
gathered again. What lies beside the layers stays wherever the next compute is of the same stage. The weights' part of a
split backward (W) reads no parameter, and counts as none.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from emberward.plan._schedule import Action, Schedule, Work

HELD_LAYERS = 2
"""Layers of a stage that are gathered at a time."""


def readers(actions: Iterable[Action]) -> list[Action]:
    """Those of the actions that read parameters, in their order."""
    return [action for action in actions if action.work is not Work.WEIGHT]


def kept_layers(action: Action, then: Action | None, num_layers: int) -> range:
    """Which of a stage's `num_layers` stay gathered after `action`; `then`: what reads parameters next on the rank."""
    is_forward = action.work is Work.FORWARD
    if not keeps_rest(action, then) or then is None or (then.work is Work.FORWARD) == is_forward:
        return range(0)
    return range(max(num_layers - HELD_LAYERS, 0), num_layers) if is_forward else range(min(HELD_LAYERS, num_layers))


def keeps_rest(action: Action, then: Action | None) -> bool:
    """Whether what a stage holds beside its layers stays gathered after `action`."""
    return then is not None and then.stage == action.stage


def stage_gathers(schedule: Schedule, pp_rank: int, stage: int, num_layers: int) -> tuple[list[int], int]:
    """How often a step under ZeRO-3 gathers each layer of a stage, and what lies beside them."""
    times, rest = [0] * num_layers, 0
    for (action, before), count in _passes(schedule, pp_rank).items():
        if action.stage != stage:
            continue
        kept = range(0) if before is None else kept_layers(before, action, num_layers)
        rest += 0 if before is not None and keeps_rest(before, action) else count
        for layer in range(num_layers):
            times[layer] += 0 if layer in kept else count
    return times, rest


@lru_cache(maxsize=256)
def _passes(schedule: Schedule, pp_rank: int) -> Counter[tuple[Action, Action | None]]:
    """How often each reader follows each other one on a rank, their micro-batches left out."""
    order = [Action(action.stage, action.work, 0) for action in readers(schedule.orders[pp_rank])]
    return Counter((action, before) for before, action in pairwise([None, *order]) if action is not None)
