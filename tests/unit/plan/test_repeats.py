"""Which computes of a step repeat others, and the shortest step that has one of each."""

import pytest

from emberward.plan import SCHEDULES, Launches, Pipe, action_of, pipeline_program, settings, short_step
from emberward.plan import schedule_from_csv as from_csv


def programs(name, pp, pp_rank, chunks=1):
    pipe = Pipe.over(range(pp))

    def program_of(num_mb):
        schedule = SCHEDULES[name](pp, num_mb, chunks)
        return pipeline_program(schedule, pipe, pp_rank, launches=Launches.ONE_ORDER)

    return program_of


@pytest.mark.parametrize("pp_rank", [0, 5, 11])
def test_a_step_of_bloom_s_pipeline_needs_few_of_its_micro_batches(pp_rank):
    short = short_step(128, programs("1f1b", 12, pp_rank))
    # Until the pipeline is full, two steady micro-batches, and the first and the last.
    assert short <= 12 - pp_rank + 3


def test_a_step_that_is_no_longer_than_its_pipeline_repeats_forwards_and_backwards():
    assert short_step(12, programs("1f1b", 12, 0)) < 6
    assert short_step(3, programs("1f1b", 2, 0)) == 3


def test_the_first_the_last_and_what_follows_another_compute_stand_apart():
    program = programs("gpipe", 2, 1)(5)
    found = {str(action_of(event)): kind for event, kind in zip(program, settings(program), strict=True)}
    assert len({found[f"1F{mb}"] for mb in range(5)}) == 3, "the first, the last before a backward, the others"
    assert found["1F1"] == found["1F3"]
    assert len({found[f"1B{mb}"] for mb in range(5)}) == 3, "after a forward, the last, the others"


def test_a_backward_in_two_parts_that_stand_together_is_not_one_in_two():
    together = from_csv("0F0,0I0,0W0,0F1,0I1,0W1")
    apart = from_csv("0F0,0I0,0F1,0W0,0I1,0W1")
    pipe = Pipe.over((0,))
    first, second = (settings(pipeline_program(each, pipe, 0)) for each in (together, apart))
    assert first[1] != second[1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_has_a_shorter_step(name):
    chunks = 1 if name in ("gpipe", "1f1b", "zb_h1") else 2
    program_of = programs(name, 4, 1, chunks)
    short = short_step(64, program_of)
    assert short < 32
    assert set(settings(program_of(64))) <= set(settings(program_of(short)))
