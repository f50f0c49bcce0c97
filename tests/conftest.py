"""Shared by all tests: the one bounded way to wait for what another process or thread does, and no time limit else."""

import time
from collections.abc import Callable

import hypothesis
import pytest

POLL_S = 0.02

# How long an example takes says how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("emberward", deadline=None)
hypothesis.settings.load_profile("emberward")


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Waits until `condition()` is true and fails after `timeout_s`, naming `what`. Tests never sleep otherwise."""

    def wait(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"waited {timeout_s} s in vain for {what}"
            time.sleep(POLL_S)

    return wait
