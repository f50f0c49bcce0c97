"""Lanes of a test are closed behind it."""

import pytest

from emberward import lanes


@pytest.fixture(autouse=True)
def no_lane_is_left():
    yield
    assert lanes.close_all(20.0)
