"""The desk at which the supervisor takes its signals."""

import os
import signal

from emberward.supervise._signals import SignalDesk


def test_a_wait_that_another_signal_interrupts_as_it_ends_gives_no_signal():
    """A timer of 1 ms interrupts the waits, so that some of them are interrupted just as their time is over."""
    old = signal.signal(signal.SIGALRM, lambda number, frame: None)
    try:
        with SignalDesk() as desk:
            os.kill(os.getpid(), signal.SIGTERM)
            first = desk.take(timeout_s=10.0)
            assert first is not None and first.number is signal.SIGTERM
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            assert [desk.take(timeout_s=0.0015) for _ in range(300)] == [None] * 300
            os.kill(os.getpid(), signal.SIGINT)
            last = desk.take(timeout_s=10.0)
            assert last is not None and last.number is signal.SIGINT
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)
