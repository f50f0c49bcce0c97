"""The executor runs the value it is given: what is recorded is the program, entry by entry."""

from emberward.events import Collective, Compute, Observer, Recv, Send, State, Trace, Wait
from emberward.match import check
from emberward.plan import Pipe, one_f_one_b, pipeline_program
from emberward.rank._events import renumber
from emberward.recipe import launches_of, mesh_of
from ranks.cases import engine_run, plain_run, relative, small_recipe

LAYOUT = {"pp": 2, "accumulation": 4}


def computes(events):
    return [event.body.name for event in events if isinstance(event.body, Compute)]


def test_what_runs_is_what_the_program_says(pool):
    answers = pool.run(engine_run, 2, steps=1, keep_events=True, **LAYOUT)
    mesh = mesh_of(small_recipe(**LAYOUT).layout)
    pipe = Pipe.over((0, 1), mesh=mesh, dtype="float32", shapes=((4, 16, 32),))
    for rank, answer in enumerate(answers):
        launches = launches_of(small_recipe(**LAYOUT))
        planned = pipeline_program(one_f_one_b(2, 4), pipe, rank, launches=launches)
        ran = answer["events"]
        assert [(e.lane, e.position, e.body) for e in ran[: len(planned)]] == [
            (e.lane, e.position, e.body) for e in planned
        ]
        tail = [e.body.tensor if isinstance(e.body, Collective) else e.body.name for e in ran[len(planned) :]]
        assert tail == ["grads_of_tied_ends", "step_totals", "optimizer"]
        for event in ran:
            posted = isinstance(event.body, Send | Recv)
            assert event.state is (State.ISSUED if posted else State.COMPLETED)
            assert event.phase.step == 0


def test_every_part_of_a_step_has_its_time_and_none_is_counted_twice(pool):
    for layout in (LAYOUT, {"dp": 2, "zero": 3, "accumulation": 2}):
        for answer in pool.run(engine_run, 2, steps=2, **layout):
            parts = answer["parts_s"]
            assert sorted(parts) == ["backward", "exchange", "forward", "optimizer"]
            assert min(parts.values()) > 0
            assert sum(parts.values()) <= answer["step_s"]


def test_swapping_two_entries_of_the_schedule_changes_what_is_recorded_and_not_the_result(pool, tmp_path):
    orders = [[str(action) for action in order] for order in one_f_one_b(2, 4).orders]
    assert orders[0][1:3] == ["0F1", "0B0"]
    orders[0][2], orders[0][3] = orders[0][3], orders[0][2]
    path = tmp_path / "swapped.csv"
    path.write_text("\n".join(",".join(order) for order in orders) + "\n", encoding="utf-8")
    usual = pool.run(engine_run, 2, steps=2, keep_events=True, **LAYOUT)
    swapped = pool.run(engine_run, 2, steps=2, keep_events=True, schedule=str(path), **LAYOUT)
    assert computes(usual[0]["events"])[:4] == ["0F0", "0F1", "0B0", "0F2"]
    assert computes(swapped[0]["events"])[:4] == ["0F0", "0F1", "0F2", "0B0"]
    assert computes(usual[1]["events"]) == computes(swapped[1]["events"])
    assert relative(swapped[0]["loss"], plain_run(steps=2)["loss"]) < 1e-5


def test_recorded_steps_make_one_trace_that_the_judge_proves(pool):
    answers = pool.run(engine_run, 4, steps=2, keep_events=True, dp=2, pp=2, accumulation=4)
    trace = Trace(
        world_size=4,
        events={rank: renumber(answer["events"]) for rank, answer in enumerate(answers)},
        observer=Observer.LIVE,
    )
    assert any(isinstance(event.body, Wait) for event in trace)
    assert [finding.message for finding in check(trace).findings] == []


def test_layers_may_be_placed_by_hand(pool):
    answers = pool.run(engine_run, 2, steps=2, stage_layers=(1, 3), **LAYOUT)
    assert relative(answers[0]["loss"], plain_run(steps=2)["loss"]) < 1e-5
