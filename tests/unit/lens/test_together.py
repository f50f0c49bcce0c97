"""Stalls of one helper are one change, and those of the loop's own lines are not."""

from dataclasses import replace

import pytest
from unit.lens.test_logs_and_lists import RANK

from emberward.findings import Cause
from emberward.lens import Instruction, Sampled, Sources
from emberward.lens._stalls import stalls_of_rank
from emberward.lens._together import put_together

TEXT = """for batch in batches:
    train(batch)
    keep(loss)
    first.tolist()
    second.tolist()
def keep(loss):
    history.append(loss.tolist())
    others.append(norm.tolist())
    time.sleep(1)
"""


def at(line, column, last, function="<module>"):
    return Instruction(
        "train.py", function, 1 if function == "<module>" else 6, "user", line, line, column, last, "CALL"
    )


def put(*stacks):
    seen = tuple(
        Sampled(stack=stack, flag="", steps={step: (0.001 * (index + 1), 0.0) for step in range(9)}, at_s={})
        for index, stack in enumerate(stacks)
    )
    rank = replace(RANK, bounds_s=tuple(range(10)), loop=(("train.py", "<module>", 1),), stacks=seen)
    sources = Sources(lambda file: TEXT)
    found = put_together({0: stalls_of_rank(rank, sources)}, [rank], sources)[0]
    return [(each.told.cause, each.told.site, round(1000 * each.cost_s, 3), each.num_steps) for each in found]


KEEP = at(3, 4, 14)


def test_reads_of_one_helper_are_one_at_the_line_that_costs_most():
    found = put((at(7, 19, 32, "keep"), KEEP), (at(8, 18, 31, "keep"), KEEP))
    assert found == [(Cause.TOLIST, "train.py:8", pytest.approx(3.0), 9)]


def test_lines_of_the_loop_and_other_causes_stay_apart():
    found = put((at(4, 4, 18),), (at(5, 4, 19),))
    assert found == [(Cause.TOLIST, "train.py:5", 2.0, 9), (Cause.TOLIST, "train.py:4", 1.0, 9)]
    found = put((at(7, 19, 32, "keep"), KEEP), (at(9, 4, 17, "keep"), KEEP))
    assert {each[1] for each in found} == {"train.py:7", "train.py:9"}
