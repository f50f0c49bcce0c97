"""Lanes: order, bounds, dependencies by data, errors, blocks, and what never ends."""

import gc
import threading
import time
import traceback

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emberward import lanes
from emberward.findings import EmberwardError

BOUND_S = 20.0


def wait_for(condition) -> None:
    end_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end_s, "waited too long"
        threading.Event().wait(0.002)


def held(lane: lanes.Lane) -> threading.Event:
    """The lane stands in a task until the event is set."""
    release, begun = threading.Event(), threading.Event()

    def stand() -> None:
        begun.set()
        assert release.wait(BOUND_S)

    lane.submit(stand)
    assert begun.wait(BOUND_S)
    return release


# -- order and bounds --------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["submit", "block", "decorated"]), max_size=30))
def test_tasks_and_blocks_run_in_the_order_in_which_they_are_given(kinds):
    lane, done = lanes.lane("order"), []
    decorated = lane(done.append)
    for number, kind in enumerate(kinds):
        if kind == "submit":
            lane.submit(done.append, number)
        elif kind == "decorated":
            decorated(number)
        else:
            with lane:
                done.append(number)
    lane.join()
    assert done == list(range(len(kinds)))


def test_a_name_is_one_lane_with_one_thread():
    where = {lanes.lane("one").submit(threading.current_thread).result().name for _ in range(50)}
    assert where == {"lane one"}
    assert lanes.lane("one") is lanes.lane("one")
    assert [lane.name for lane in lanes.open_lanes()] == ["one"]


def test_the_seventeenth_lane_is_refused_in_these_words():
    names = [f"l{number}" for number in range(lanes.MAX_LANES)]
    for name in names:
        lanes.lane(name)
    with pytest.raises(EmberwardError) as caught:
        lanes.lane("one too many")
    assert str(caught.value) == (
        "W101 cpu has 16 lanes already\n"
        "  expected  at most 16 lanes on a device, made once and used again\n"
        f"  found     {', '.join(names)}\n"
        '  next      use one of these again: lanes.lane("NAME") gives the lane that has the name; or close one with '
        "lane.close()"
    )


def test_a_closed_lane_makes_room_and_a_known_name_needs_none():
    made = [lanes.lane(f"l{number}") for number in range(lanes.MAX_LANES)]
    assert lanes.lane("l3") is made[3]
    assert made[0].close()
    assert lanes.lane("another").submit(int).result() == 0


def test_a_full_queue_raises_in_these_words_where_asked():
    lane = lanes.lane("full", depth=2, when_full=lanes.WhenFull.RAISE)
    release = held(lane)
    lane.submit(int)
    with pytest.raises(EmberwardError) as caught:
        lane.submit(int)
    release.set()
    assert str(caught.value) == (
        "W102 the queue of lane full is full\n"
        "  expected  at most 2 tasks that are not done\n"
        "  found     one more, and the lane was asked to raise rather than to wait\n"
        "  next      submit less, make the lane deeper (depth=), or let submit wait (when_full=WhenFull.WAIT)"
    )


def test_a_full_queue_waits_else():
    lane, passed = lanes.lane("full", depth=2), threading.Event()
    release = held(lane)
    lane.submit(int)

    def third() -> None:
        lane.submit(int)
        passed.set()

    thread = threading.Thread(target=third)
    thread.start()
    wait_for(lambda: lane._num_blocked == 1)
    assert not passed.is_set()
    assert lane.num_open == 2
    release.set()
    thread.join(BOUND_S)
    assert passed.is_set()


def test_other_settings_for_a_name_are_refused_in_these_words():
    lanes.lane("a", depth=3)
    with pytest.raises(EmberwardError) as caught:
        lanes.lane("a", depth=4)
    assert str(caught.value) == (
        "W106 lane a was made with other settings\n"
        "  expected  depth 4, when full wait, communicator none of its own, at exit finishes\n"
        "  found     depth 3, when full wait, communicator none of its own, at exit finishes\n"
        "  next      ask for it with the settings that it has, or take another name"
    )


def test_uses_leave_nothing_behind():
    lane, tensor = lanes.lane("flat"), torch.zeros(4)
    for _ in range(300):
        lane.submit(torch.sum, tensor)
    lane.join()
    gc.collect()
    assert [item for item in gc.get_objects() if type(item) is lanes.Result] == []
    assert lane.num_open == 0


# -- dependencies by data ----------------------------------------------------------------------------------------------


def test_a_result_stands_in_for_its_tensor():
    lane = lanes.lane("a")
    given = lane.submit(torch.full, (2, 2), 3.0)
    assert torch.equal(torch.add(given, 1), torch.full((2, 2), 4.0))
    assert torch.equal(1 + given * 2, torch.full((2, 2), 7.0))
    assert torch.equal(torch.stack([given, given])[0], given.result())
    assert (float(given.sum()), given.shape, len(given)) == (12.0, (2, 2), 2)
    assert f"{given[0, 0]:.1f}" == "3.0"
    assert bool((given == 3).all())
    assert torch.equal(torch.nn.functional.linear(given, torch.eye(2)), given.result())


def test_a_result_of_another_lane_is_waited_for_there_and_not_by_the_submitter():
    first, second = lanes.lane("first"), lanes.lane("second")
    release = held(first)
    made = first.submit(torch.ones, 3)
    used = second.submit(torch.sum, made)
    nested = second.submit(lambda parts: parts["x"][0] + 1, {"x": [made]})
    assert not used.done()
    release.set()
    assert (used.result(BOUND_S).item(), nested.result(BOUND_S).tolist()) == (3.0, [2.0, 2.0, 2.0])


def test_the_use_of_one_result_waits_for_no_later_task():
    lane = lanes.lane("a")
    first = lane.submit(torch.ones, 2)
    assert first.result(BOUND_S).sum() == 2
    release = held(lane)
    assert (first + 1).tolist() == [2.0, 2.0]
    release.set()


def test_a_write_in_place_after_the_hand_over_is_caught_in_these_words():
    lane = lanes.lane("metrics")
    release = held(lane)
    loss = torch.zeros(2, 3)
    line = test_a_write_in_place_after_the_hand_over_is_caught_in_these_words.__code__.co_firstlineno + 5
    result = lane.submit(torch.sum, loss)
    loss.view(-1).add_(1)
    release.set()
    with pytest.raises(EmberwardError) as caught:
        result.result(BOUND_S)
    assert str(caught.value) == (
        "W103 a tensor was written in place while lane metrics had it\n"
        f"  where     an argument of sum of shape [2, 3], handed over at {__file__}:{line}\n"
        "  expected  no write in place from the hand-over until the task is done\n"
        "  found     its version counter moved: the task may have read new values, or half of them\n"
        "  next      hand over a copy (tensor.clone()), or wait for the result before the write; a task that is to "
        "write into it takes lanes.Out(tensor)"
    )


def test_a_write_while_the_task_runs_and_one_of_a_module_s_parameters_are_caught_too():
    lane, begun, release = lanes.lane("a"), threading.Event(), threading.Event()
    model = torch.nn.Linear(2, 2)

    def read(module: torch.nn.Module) -> float:
        begun.set()
        assert release.wait(BOUND_S)
        return float(next(module.parameters()).detach().sum())

    result = lane.submit(read, model)
    assert begun.wait(BOUND_S)
    with torch.no_grad():
        model.weight.add_(1)
    release.set()
    with pytest.raises(EmberwardError, match="W103"):
        result.result(BOUND_S)


def test_a_write_after_the_task_and_one_that_is_announced_are_no_fault():
    lane, loss, total = lanes.lane("a"), torch.ones(3), torch.zeros(3)
    assert lane.submit(torch.sum, loss).result(BOUND_S) == 3
    loss.add_(1)
    lane.submit(torch.Tensor.add_, lanes.Out(total), loss).result(BOUND_S)
    with torch.inference_mode():
        frozen = torch.ones(2)
        assert lane.submit(torch.sum, frozen).result(BOUND_S) == 2
    assert total.tolist() == [2.0, 2.0, 2.0]


def test_a_tensor_lives_while_a_lane_still_reads_it():
    import weakref

    lane = lanes.lane("a")
    release = held(lane)
    tensor = torch.ones(3)
    kept = weakref.ref(tensor)
    result = lane.submit(torch.sum, tensor)
    del tensor
    gc.collect()
    assert kept() is not None
    release.set()
    assert result.result(BOUND_S) == 3
    lane.join()
    assert kept() is None


def test_a_forward_on_a_lane_and_the_backward_here_give_the_gradients_of_one_thread():
    torch.manual_seed(1)
    model, data = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), torch.randn(5, 3)
    model(data).sum().backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    loss = lanes.lane("forward").submit(model, data).sum()
    loss.backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))


def test_a_task_runs_in_the_modes_of_its_submitter_and_leaves_none_behind():
    lane, weight = lanes.lane("a"), torch.ones(2, 2, requires_grad=True)

    def product() -> torch.Tensor:
        return weight @ weight

    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        inside = lane.submit(product)
    with torch.inference_mode():
        frozen = lane.submit(lambda: torch.ones(2).is_inference())
    lane.submit(torch.set_grad_enabled, False)
    after = lane.submit(product).result(BOUND_S)
    assert (inside.requires_grad, inside.dtype, frozen.result(BOUND_S)) == (False, torch.bfloat16, True)
    assert (after.requires_grad, after.dtype) == (True, torch.float32)


# -- errors ------------------------------------------------------------------------------------------------------------


def fails(word: str) -> None:
    raise ValueError(word)


def test_an_error_comes_out_at_the_first_use_with_both_stacks():
    result = lanes.lane("a").submit(fails, "broken")
    with pytest.raises(ValueError, match="broken") as caught:
        result + 1
    text = "".join(traceback.format_exception(caught.value))
    assert "in fails" in text
    assert "The task was submitted to lane a at:" in text
    assert "in test_an_error_comes_out_at_the_first_use_with_both_stacks" in text.partition("submitted to lane")[2]
    depth = len(traceback.extract_tb(caught.tb))
    with pytest.raises(ValueError, match="broken") as again:
        result.result()
    assert len(traceback.extract_tb(again.tb)) <= depth, "each use would make the traceback longer"


def test_an_error_that_nobody_can_ask_for_comes_out_at_the_next_use_of_the_lane_and_once():
    lane = lanes.lane("a")
    lane.submit(fails, "lost")
    wait_for(lambda: lane._unclaimed is not None)
    with pytest.raises(ValueError, match="lost"):
        lane.submit(int)
    lane.submit(fails, "lost too")
    with pytest.raises(ValueError, match="lost too"):
        lane.join()
    assert lane.submit(int).result(BOUND_S) == 0
    lane.join()


def test_an_error_that_somebody_took_is_not_told_again():
    lane = lanes.lane("a")
    result = lane.submit(fails, "seen")
    assert str(result.exception(BOUND_S)) == "seen"
    del result
    gc.collect()
    lane.join(BOUND_S)


def test_an_error_comes_out_at_the_end_of_the_block_and_the_lane_goes_on():
    lane = lanes.lane("a")
    with pytest.raises(ValueError, match="in the block"), lane:
        fails("in the block")
    release = held(lane)
    with pytest.raises(ValueError, match="of a task"):
        lane.submit(fails, "of a task")
        release.set()
        with lane:
            pass
    assert lane.submit(int).result(BOUND_S) == 0


def test_a_result_that_does_not_come_in_time():
    lane = lanes.lane("a")
    release = held(lane)
    with pytest.raises(TimeoutError, match=r"lane a: no result within 0\.01 s"):
        lane.submit(int).result(0.01)
    release.set()


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_a_block_has_the_lane_for_itself():
    lane, seen = lanes.lane("a"), []
    release = held(lane)
    lane.submit(seen.append, "before")
    threading.Timer(0.05, release.set).start()
    with lane:
        seen.append("block")
        after = lane.submit(seen.append, "after")
        with lane:
            seen.append("inner")
        threading.Event().wait(0.02)
        seen.append("block ends")
    after.result(BOUND_S)
    assert seen == ["before", "block", "inner", "block ends", "after"]


# -- what never ends ---------------------------------------------------------------------------------------------------


def test_a_wait_that_never_ends_is_refused_in_these_words():
    first, second = lanes.lane("first"), lanes.lane("second")
    both = threading.Barrier(2)

    def ask(other: lanes.Lane) -> object:
        both.wait(BOUND_S)
        return other.submit(int).result(BOUND_S)

    found = [each.exception(BOUND_S) for each in (first.submit(ask, second), second.submit(ask, first))]
    told = [str(error) for error in found if isinstance(error, EmberwardError)]
    assert len(told) == 1, "one of the two is refused, the other goes on"
    names = ("first", "second") if isinstance(found[0], EmberwardError) else ("second", "first")
    assert told[0] == (
        "W104 a wait on a lane could never end\n"
        "  expected  a task waits for results of other lanes only, and those do not wait for it\n"
        f"  found     lane {names[0]} waits for lane {names[1]} waits for lane {names[0]}\n"
        "  next      give the result to the task as an argument of another lane, or run the work inside this task"
    )


def test_a_task_and_a_block_that_wait_for_their_own_lane_are_refused():
    lane = lanes.lane("a", depth=1)
    assert isinstance(lane.submit(lambda: lane.submit(int)).exception(BOUND_S), EmberwardError)
    with lane, pytest.raises(EmberwardError, match="W104"):
        lane.submit(int)
    deep = lanes.lane("deep")
    with deep, pytest.raises(EmberwardError, match="W104"):
        deep.submit(int).result(BOUND_S)


def test_lanes_that_wait_for_each_other_in_a_line_are_no_circle():
    chain = [lanes.lane(f"l{number}") for number in range(4)]

    def ask(number: int) -> int:
        return number if number == 3 else chain[number + 1].submit(ask, number + 1).result(BOUND_S)

    assert [chain[0].submit(ask, 0).result(BOUND_S) for _ in range(20)] == [3] * 20
