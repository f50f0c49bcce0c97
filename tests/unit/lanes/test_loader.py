"""The loader: order, bounds, exceptions, endings, and no fork."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emberward import lanes
from emberward.data import Batch
from emberward.findings import Cause, EmberwardError

BOUND_S = 20.0


def loader_of(fetch, indices, depth, *, name="loader", **named) -> lanes.PrefetchLoader:
    lane = lanes.lane(name, finishes_at_exit=False)
    return lanes.PrefetchLoader(fetch, indices, depth, lane=lane, **named)


def make(indices) -> Batch:
    tokens = np.array([[index, index + 1] for index in indices], dtype=np.int64)
    return Batch(tokens=tokens, mask=np.ones((len(tokens), 1), dtype=np.float32))


def wait_for(condition) -> None:
    end_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end_s, "waited too long"
        threading.Event().wait(0.005)


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=12), st.integers(1, 4))
def test_items_come_in_order_and_end(index_batches, depth):
    with loader_of(list, index_batches, depth) as loader:
        assert list(loader) == index_batches
        assert list(loader) == []


def test_batches_are_those_of_fetch():
    with loader_of(make, [range(0, 2), range(2, 4)], 2) as loader:
        assert [batch.tokens[:, 0].tolist() for batch in loader] == [[0, 1], [2, 3]]


def test_no_more_than_depth_are_ready():
    made = []
    with loader_of(lambda index: made.append(index) or index, iter(range(100)), 3) as loader:
        wait_for(lambda: len(made) >= 4)  # three that are ready, one in the lane's hand
        assert next(loader) == 0
        wait_for(lambda: len(made) >= 5)
        assert len(made) <= 6


def test_exception_of_fetch_comes_at_its_item_and_stays():
    def fetch(index):
        if index == 2:
            raise OSError("disk gone")
        return index

    with loader_of(fetch, range(5), 4) as loader:
        assert [next(loader), next(loader)] == [0, 1]
        for _ in range(2):
            with pytest.raises(OSError, match="disk gone"):
                next(loader)


def test_exception_of_the_indices_comes_after_the_items_before_it():
    def indices():
        yield 1
        raise KeyError("no more")

    with loader_of(lambda index: index, indices(), 2) as loader:
        assert next(loader) == 1
        with pytest.raises(KeyError, match="no more"):
            next(loader)


def test_stop_iteration_inside_fetch_is_no_end_of_data():
    def fetch(index):
        return next(iter(()))

    with loader_of(fetch, [1], 2) as loader, pytest.raises(RuntimeError, match="fetch raised StopIteration"):
        next(loader)


def test_close_leaves_nothing_on_the_lane():
    loader = loader_of(lambda index: index, iter(range(10**9)), 2)
    assert next(loader) == 0
    assert loader.close()
    assert loader.close()
    assert lanes.lane("loader", finishes_at_exit=False).num_open == 0
    with pytest.raises(RuntimeError, match="closed"):
        next(loader)


def test_close_is_bounded_when_fetch_does_not_return():
    release = threading.Event()
    loader = loader_of(lambda index: release.wait(BOUND_S), [1], 1)
    start_s = time.monotonic()
    assert not loader.close(timeout_s=0.2)
    assert time.monotonic() - start_s < 5
    release.set()
    assert loader.close()


def test_read_that_does_not_return_is_reported():
    release = threading.Event()
    loader = loader_of(lambda index: release.wait(BOUND_S), [1], 1, timeout_s=0.2, name="loader-7")
    with pytest.raises(EmberwardError) as caught:
        next(loader)
    release.set()
    assert loader.close()
    assert caught.value.cause is Cause.FILE_READ
    assert str(caught.value) == (
        "D103 the data loader gave no batch in time\n"
        "  where     lane loader-7\n"
        "  expected  a batch within 0.2 s\n"
        "  found     the lane still reads\n"
        "  next      look at the file system that holds the data; emberward explain PID shows where the lane stands"
    )


def test_slow_read_within_the_bound_is_no_alarm():
    release = threading.Event()
    threading.Timer(0.6, release.set).start()
    with loader_of(lambda index: release.wait(BOUND_S), [1], 1, timeout_s=BOUND_S) as loader:
        assert next(loader) is True


def test_loader_that_nobody_keeps_leaves_its_lane():
    loader = loader_of(lambda index: index, iter(range(10**9)), 1)
    lane = lanes.lane("loader", finishes_at_exit=False)
    del loader
    wait_for(lambda: lane.num_open == 0)


def test_depth_must_be_positive():
    with pytest.raises(ValueError, match="depth must be at least 1"):
        loader_of(list, [], 0)


def run(program: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=timeout_s
    )


@pytest.mark.parametrize("state", ["waits for room", "is inside fetch"])
def test_interpreter_exits_with_a_loader_that_nobody_closed(state):
    slow = "time.sleep(30)" if state == "is inside fetch" else "pass"
    done = run(f"""
import threading, time
from emberward import lanes
entered = threading.Event()
def fetch(index):
    entered.set()
    {slow}
    return index
loader = lanes.PrefetchLoader(fetch, iter(range(10**9)), 2, lane=lanes.lane("data", finishes_at_exit=False))
assert entered.wait(10)
print("end", flush=True)
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


# A lock over a fork: another thread holds a lock at the instant of the fork; the child has the lock, not the thread.
FORK_HANG = """
import os, sys, threading
lock, held, done = threading.Lock(), threading.Event(), threading.Event()
def holder():
    with lock:
        held.set()
        done.wait(30)
thread = threading.Thread(target=holder)
thread.start()
held.wait(10)
forks = []
os.register_at_fork(before=lambda: forks.append(threading.active_count()))
"""


def test_fork_with_a_lock_held_does_hang():
    """The disease itself, bounded: the child of a fork never gets the lock, though its holder lets go of it."""
    done = run(
        FORK_HANG
        + """
import warnings
warnings.simplefilter("ignore")  # from 3.12 on Python itself warns of this fork
child = os.fork()
if child == 0:
    os._exit(0 if lock.acquire(timeout=1.0) else 42)
done.set()
thread.join(10)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), forks)
"""
    )
    assert done.stdout == "42 [2]\n", done.stderr


def test_loader_and_preparation_never_fork_while_a_lock_is_held(tmp_path):
    """The same scene with our loader, our preparation and a Hugging Face tokenizer: no fork, no child, no hang."""
    pytest.importorskip("tokenizers")
    (tmp_path / "text.txt").write_text("some words of text\n\n" * 500)
    done = run(
        FORK_HANG
        + f"""
import pathlib, tokenizers
here = pathlib.Path({str(tmp_path)!r})
words = tokenizers.Tokenizer(tokenizers.models.WordLevel({{"<unk>": 0, "some": 1, "</s>": 2}}, unk_token="<unk>"))
words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
words.save(str(here / "tokenizer.json"))
from emberward import lanes
from emberward.data import eval_batches, open_eval, open_train, prepare
for name in ("byte", str(here / "tokenizer.json")):
    manifest = prepare(train=[(str(here / "text.txt"), 1.0, None)], evaluation=[], tokenizer=name, held_out=0.1,
                       cache=here / "cache", progress=None)
    data = open_train(manifest, seed=1, seq_len=16)
    for _ in range(3):  # a loader anew for each evaluation, as in the run that hung
        batches = [range(i, i + 4) for i in range(0, 40, 4)]
        with lanes.PrefetchLoader(data.batch, batches, 2, lane=lanes.lane("data")) as loader:
            assert sum(batch.mask.sum() for batch in loader) == 640
        for set_ in open_eval(manifest, seq_len=16, max_samples=8).values():
            rows = eval_batches(set_.num_samples, 2, 3).of_rank(1)
            with lanes.PrefetchLoader(set_.batch, rows, 2, lane=lanes.lane("data")) as loader:
                assert len(list(loader)) == 2
done.set()
thread.join(10)
try:
    os.waitpid(-1, os.WNOHANG)
    children = "some"
except ChildProcessError:
    children = "none"
print(forks, children)
"""
    )
    assert (done.returncode, done.stdout) == (0, "[] none\n"), done.stderr
