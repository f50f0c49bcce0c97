"""The desk at which the supervisor takes its signals."""

import signal
import threading

from emberward.supervise._signals import SignalDesk


def test_a_wait_that_another_signal_interrupts_as_it_ends_gives_no_signal():
    """A timer of 1 ms interrupts the waits, so that some of them are interrupted just as their time is over."""
    here = threading.get_ident()  # to this thread: one that another test left may not hold signals back
    old = signal.signal(signal.SIGALRM, lambda number, frame: None)
    try:
        with SignalDesk() as desk:
            signal.pthread_kill(here, signal.SIGTERM)
            first = desk.take(timeout_s=10.0)
            assert first is not None and first.number is signal.SIGTERM
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            assert [desk.take(timeout_s=0.0015) for _ in range(300)] == [None] * 300
            signal.pthread_kill(here, signal.SIGUSR1)
            last = desk.take(timeout_s=10.0)
            assert last is not None and last.number is signal.SIGUSR1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)


def test_a_signal_that_another_thread_took_is_taken_too():
    """A thread from before the desk holds no signal back: the kernel may give it ours."""
    go, end = threading.Event(), threading.Event()

    def take_it() -> None:
        go.wait(30.0)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        end.wait(30.0)

    other = threading.Thread(target=take_it)
    other.start()
    try:
        with SignalDesk() as desk:
            go.set()
            found = desk.take(timeout_s=20.0)
            assert found is not None and found.number is signal.SIGTERM
    finally:
        go.set()
        end.set()
        other.join()
