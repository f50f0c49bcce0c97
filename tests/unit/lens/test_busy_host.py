"""What a busy host leaves open: a stall of a step that waited for processors is said, and not as a finding."""

from dataclasses import replace

import pytest
from unit.lens.test_overlap import STEP_MS, samples

from emberward.lens import Sources, page_text, profile_of

TEXT = "for step in range(100):\n    loss.item()\n    compute()\n"


def profiled(*, item_ms, queue_ms):
    """A rank that waits for its device for `item_ms` of each step, and for a processor for `queue_ms`."""
    told = samples(0, lines={2: item_ms, 3: STEP_MS - item_ms - queue_ms}, queue_ms=queue_ms)
    waiting, computing = told.stacks
    (line,) = waiting.stack
    line = replace(line, column=4, last_column=15)
    waits = {step: (seconds, 0.0) for step, (seconds, _) in waiting.steps.items()}
    told = replace(told, stacks=(replace(waiting, stack=(line,), steps=waits), computing), world_size=1)
    return profile_of([told], Sources(lambda file: TEXT), asked_warmup=0)


def test_a_stall_that_is_small_beside_the_waits_for_a_processor_is_said_as_not_certain():
    profile = profiled(item_ms=2, queue_ms=60)
    assert [each for each in profile.findings if each.cost_ms_per_step is not None] == []
    assert profile.to_json()["not_certain"] == [{"cause": "item", "site": "train.py:2", "cost_ms_per_step": 2.0}]
    lines = page_text(profile).splitlines()
    at = lines.index("ranks waited for a processor 60% of the time: the host is busy")
    assert lines[at + 1 : at + 3] == [
        "seen, and not certain on so busy a host; profile again on a quiet one:",
        "  item at train.py:2: 2.00 ms a step",
    ]


@pytest.mark.parametrize(("item_ms", "queue_ms"), [(2, 0), (2, 4), (1, 60)])
def test_what_is_too_small_on_a_quiet_host_or_beside_the_steps_own_work_is_not_said(item_ms, queue_ms):
    profile = profiled(item_ms=item_ms, queue_ms=queue_ms)
    assert profile.uncertain == ()
    assert "not certain" not in page_text(profile)


def test_what_costs_enough_of_the_step_as_it_was_is_a_finding_on_a_busy_host_too():
    profile = profiled(item_ms=8, queue_ms=60)
    assert [each.cause.value for each in profile.findings if each.cost_ms_per_step is not None] == ["item"]
    assert profile.uncertain == ()
