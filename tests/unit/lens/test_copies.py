"""Joins that copy again what they had joined before, and joins that do not."""

import pytest
import torch
from unit.lens.test_alike import compared_by, wastes_of
from unit.lens.test_stalls import line_of

from emberward.findings import Cause

NEW = torch.randn(64, 512)
WEIGHT = torch.randn(512, 512)


class Queue:
    def __init__(self):
        self.rows = torch.randn(8192, 512)


QUEUE = Queue()


def rebuilds_its_queue(step):
    QUEUE.rows = torch.cat([NEW @ WEIGHT, QUEUE.rows])[:8192]  # here


def writes_over_the_oldest(step):
    QUEUE.rows[step * 64 % 8192 : step * 64 % 8192 + 64] = NEW @ WEIGHT


def grows_by_a_row(step):
    found = torch.empty(0, 512)
    for row in NEW:
        found = torch.cat([found, row[None]])  # here
    return found @ WEIGHT


def joins_once(step):
    return torch.cat([row[None] for row in NEW]) @ WEIGHT


def reads_all_in_each_turn(step):
    """A dense net: each layer is given what all before it have made."""
    found = NEW[:, :64]
    for k in range(8):
        found = torch.cat([found, found @ WEIGHT[: found.shape[1], k * 8 : k * 8 + 8]], 1)
    return found


def grows_twice(step):
    found = NEW
    for _ in range(2):
        found = torch.cat([found, NEW])
    return found


def copied_at(program):
    return {where[0][1]: copied / whole for where, copied, whole in compared_by(program, "copies")}


@pytest.mark.parametrize(("program", "least"), [(rebuilds_its_queue, 0.5), (grows_by_a_row, 0.3)])
def test_what_was_joined_before_is_copied_again(program, least):
    assert least < copied_at(program)[line_of(program)] <= 1


@pytest.mark.parametrize("program", [writes_over_the_oldest, joins_once, reads_all_in_each_turn, grows_twice])
def test_joins_of_what_is_new_or_read_in_between_are_none(program):
    assert copied_at(program) == {}


def test_it_is_told_at_the_join(tmp_path):
    found = wastes_of(rebuilds_its_queue, tmp_path)
    (waste,) = [each for each in found if "had joined before" in each.evidence[0]]
    assert (waste.cause, waste.site) == (Cause.REDUNDANT_WORK, f"{__file__}:{line_of(rebuilds_its_queue)}")
