"""Shared by all tests: the one bounded way to wait for what another process or thread does, and what is thorough."""

import gc
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from sample import is_left_out, is_seldom
from waits import pause_s

# How long an example takes says how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("emberward", deadline=None)
hypothesis.settings.load_profile("emberward")

# A shell that starts the tests in its background lets them ignore Ctrl-C, and with them every program they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What collecting imports and makes stays to the end: the collector looks through it neither meanwhile nor later.
gc.disable()


def pytest_collection_finish() -> None:
    """The collector is on again, for what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Waits until `condition()` is true and fails after `timeout_s`, naming `what`. Tests never sleep otherwise."""

    def wait(condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while True:
            began = time.monotonic()
            if condition():
                return
            now = time.monotonic()
            assert now < end, f"waited {timeout_s} s in vain for {what}"
            time.sleep(pause_s(now - began))

    return wait


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make test` leaves to `make test-all`, and both to `make campaign`. See [Note: sampled tests]."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    names = {
        item: f"{item.path.relative_to(Path(__file__).parent).as_posix()}::{item.originalname}" for item in functions
    }
    num_cases, seen = Counter(names.values()), Counter[str]()
    for item, name in names.items():
        file, number = name.partition("::")[0], seen[name]
        if is_left_out(file, item.originalname, number, num_cases[name]):
            item.add_marker(pytest.mark.thorough)
        if is_seldom(file, item.originalname, number):
            item.add_marker(pytest.mark.seldom)
        seen[name] += 1
