"""When a failed run is started again, and when not."""

import pytest

from emberward.supervise import AttemptEnd, AttemptOutcome, decide_restart


def failed(saved_step: int | None, *codes: str) -> AttemptEnd:
    return AttemptEnd(outcome=AttemptOutcome.FAILED, codes=codes or ("L102",), saved_step=saved_step)


def test_a_death_is_answered_by_a_restart_from_the_last_save():
    found = decide_restart([failed(40)], max_restarts=3)
    assert (found.is_wanted, found.why) == (True, "restart 1 of 3 from the save of step 40")
    assert decide_restart([failed(None)], max_restarts=1).why == "restart 1 of 1 from the beginning"


def test_restarts_are_bounded():
    assert not decide_restart([failed(1)], max_restarts=0).is_wanted
    ends = [failed(10), failed(20), failed(30)]
    assert decide_restart(ends[:2], max_restarts=2).is_wanted
    found = decide_restart(ends, max_restarts=2)
    assert (found.is_wanted, found.why) == (False, "all 2 restarts are used")


@pytest.mark.parametrize("saved", [None, 40])
def test_no_progress_ends_it(saved):
    found = decide_restart([failed(saved), failed(saved)], max_restarts=9)
    assert (found.is_wanted, found.why) == (False, "the last two attempts saved no new step")


def test_a_lost_host_is_no_lack_of_progress_as_the_next_attempt_is_made_without_it():
    lost = AttemptEnd(outcome=AttemptOutcome.FAILED, codes=("L113",), saved_step=40, has_lost_host=True)
    assert decide_restart([failed(40), lost], max_restarts=9).is_wanted
    assert not decide_restart([failed(40), lost], max_restarts=1).is_wanted
    assert not decide_restart([failed(40, "L112"), failed(40, "L112")], max_restarts=9).is_wanted, "neither end named"


@pytest.mark.parametrize("code", ["D102", "K101", "L101", "L103"])
def test_what_would_come_again_is_left_to_a_person(code):
    found = decide_restart([failed(40, code)], max_restarts=3)
    assert (found.is_wanted, found.why) == (False, f"{code} would come again")
    assert not decide_restart([failed(40, "L102", code)], max_restarts=3).is_wanted


@pytest.mark.parametrize("outcome", [AttemptOutcome.DONE, AttemptOutcome.STOPPED, AttemptOutcome.KILLED])
def test_only_a_failure_is_restarted(outcome):
    end = AttemptEnd(outcome=outcome, codes=(), saved_step=40)
    assert not decide_restart([end], max_restarts=3).is_wanted
