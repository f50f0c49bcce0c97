"""Which parameters ZeRO-3 keeps gathered from one compute of a rank to the next.

[Note: kept for the next compute]
A pass over a stage's layers holds two of them gathered, the one that computes and the one that is fetched, and what the
stage's ends hold. Where a rank's next compute is one of the same stage in the other direction, the layers with which a
pass ends are those with which the next one begins, and so are used again soonest: they stay, as many as fit into the
recipe's `layout.gathered_gb` beside the ends, and two at the least, which costs no memory. What the ends hold stays
wherever the next compute is of the same stage. A rank whose stages fit whole keeps all of them, from step to step, as
ZeRO-2 does. The weights' part of a split backward (W) reads no parameter, and counts as none.

DeepSpeed keeps a billion parameters by default (0.19, `stage3_max_live_parameters` and `stage3_max_reuse_distance`):
2 GB in 16 bits, which is the default here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from emberward.plan._schedule import Action, Schedule, Work

HELD_LAYERS = 2
"""Layers of a stage that are gathered at a time, whatever the room."""


def readers(actions: Iterable[Action]) -> list[Action]:
    """Those of the actions that read parameters, in their order."""
    return [action for action in actions if action.work is not Work.WEIGHT]


def held_layers(layer_bytes: Sequence[int], room_bytes: int) -> int:
    """How many layers from the first of `layer_bytes` on may be gathered at a time: those that fit, and two."""
    num_fitting = sum(1 for total in accumulate(layer_bytes) if total <= room_bytes)
    return min(max(num_fitting, HELD_LAYERS), len(layer_bytes))


def kept_layers(action: Action, then: Action | None, layer_bytes: Sequence[int], room_bytes: int) -> range:
    """Which of a stage's layers stay gathered after `action`; `then`: what reads parameters next on the rank.

    `room_bytes`: what may be gathered beside the ends of the stage.
    """
    is_forward, num_layers = action.work is Work.FORWARD, len(layer_bytes)
    if not keeps_ends(action, then) or then is None or (then.work is Work.FORWARD) == is_forward:
        return range(0)
    if is_forward:
        return range(num_layers - held_layers(layer_bytes[::-1], room_bytes), num_layers)
    return range(held_layers(layer_bytes, room_bytes))


def keeps_ends(action: Action, then: Action | None) -> bool:
    """Whether what a stage holds beside its layers stays gathered after `action`."""
    return then is not None and then.stage == action.stage


def stage_gathers(
    schedule: Schedule, pp_rank: int, stage: int, layer_bytes: Sequence[int], room_bytes: int
) -> tuple[list[int], int]:
    """How often a step under ZeRO-3 gathers each layer of a stage, and what its ends hold."""
    num_layers = len(layer_bytes)
    times, ends = [0] * num_layers, 0
    for (action, before), count in _passes(schedule, pp_rank).items():
        if action.stage != stage:
            continue
        kept = range(0) if before is None else kept_layers(before, action, layer_bytes, room_bytes)
        ends += 0 if before is not None and keeps_ends(before, action) else count
        for layer in range(num_layers):
            times[layer] += 0 if layer in kept else count
    return times, ends


@lru_cache(maxsize=256)
def _passes(schedule: Schedule, pp_rank: int) -> Counter[tuple[Action, Action | None]]:
    """How often each reader follows each other one on a rank, their micro-batches left out."""
    order = [Action(action.stage, action.work, 0) for action in readers(schedule.orders[pp_rank])]
    return Counter((action, before) for before, action in pairwise([None, *order]) if action is not None)
