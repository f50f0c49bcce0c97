"""What ZeRO-3 keeps gathered: how often layers are fetched, and how much is held at a time, by a pass played out."""

import random

import pytest

from emberward.plan import Action, Work, kept_layers, one_f_one_b
from emberward.plan._gathers import HELD_LAYERS, held_layers, stage_gathers

LAYERS = 6


def played(sizes, room, num_mb=3):
    """(times that each layer is fetched, most bytes held at a time) of 1F1B on one rank, as `engine/_zero.py` does."""
    order = [Action(0, work, mb) for mb in range(num_mb) for work in (Work.FORWARD, Work.BACKWARD)]
    held, fetched, most = set(), [0] * len(sizes), 0
    for action, then in zip(order, [*order[1:], None], strict=True):
        kept = set(kept_layers(action, then, sizes, room))
        forward = action.work is Work.FORWARD
        passed = list(range(len(sizes)))[:: 1 if forward else -1]
        for at, layer in enumerate(passed):
            for wanted in passed[at : at + 2]:
                fetched[wanted] += wanted not in held
                held.add(wanted)
            most = max(most, sum(sizes[each] for each in held))
            held -= {layer} - kept
        assert held <= kept
    return fetched, most


@pytest.mark.parametrize("room", range(0, 10 * LAYERS + 10, 10))
def test_layers_that_fit_are_fetched_once_a_pass_less_and_no_more_is_held(room):
    sizes = [10] * LAYERS
    fetched, most = played(sizes, room)
    assert most == max(min(room, sum(sizes)), HELD_LAYERS * 10)
    schedule = one_f_one_b(1, 3, 1)
    assert stage_gathers(schedule, 0, 0, sizes, room) == (fetched, 1)
    assert sum(fetched) == LAYERS + 5 * (LAYERS - held_layers(sizes, room))


def test_layers_of_different_sizes_take_at_most_one_of_them_beside_the_room():
    draw = random.Random(0)
    for _ in range(200):
        sizes = [draw.randint(1, 20) for _ in range(draw.randint(1, 9))]
        room = draw.randint(0, sum(sizes))
        _, most = played(sizes, room)
        assert most <= max(room, sum(sorted(sizes)[-HELD_LAYERS:])) + max(sizes), (sizes, room)
