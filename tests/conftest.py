"""Shared by all tests: the one bounded way to wait for something that another process or thread does."""

import time
from collections.abc import Callable

import pytest

POLL_S = 0.02


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Waits until `condition()` is true and fails after `timeout_s`, naming `what`. Tests never sleep otherwise."""

    def wait(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"waited {timeout_s} s in vain for {what}"
            time.sleep(POLL_S)

    return wait
