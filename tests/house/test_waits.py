"""A test that waits takes no more than a fifth of a processor, and sees what it waits for within a second."""

import pytest
from waits import MAX_POLL_S, POLL_S, pause_s


@pytest.mark.parametrize(("took_s", "pause"), [(0.0, POLL_S), (0.05, 0.2), (10.0, MAX_POLL_S)])
def test_the_pause_grows_with_what_a_check_takes(took_s, pause):
    assert pause_s(took_s) == pytest.approx(pause)


def test_a_condition_that_is_met_at_once_is_checked_once(wait_until):
    checks = []
    wait_until(lambda: checks.append(1) or True, "nothing")
    assert checks == [1]


def test_what_never_comes_is_named(wait_until):
    with pytest.raises(AssertionError, match="in vain for a miracle"):
        wait_until(lambda: False, "a miracle", timeout_s=0.0)
