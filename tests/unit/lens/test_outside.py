"""A process sampled from outside: a real one for a second, and stacks that are written down here."""

import subprocess
import sys

import pytest

from emberward.findings import Cause
from emberward.lens import Sources, line_shares, outside_samples, profile_of
from emberward.sources.live import FoundRank, owner_of_line, record_stacks, stacks_of
from emberward.sources.live._spy import find_spy

PROGRAM = """import time

def step():
    time.sleep(0.01)
    value = float(loss.item())
    sum(range(9))

while True:
    step()
"""
RAW = """thread (11): MainThread;<module> (/x/train.py:9);step (/x/train.py:4) 30
thread (11): MainThread;<module> (/x/train.py:9);step (/x/train.py:5) 50
thread (11): MainThread;<module> (/x/train.py:9);step (/x/train.py:6) 20
thread (12): loader;run (/x/train.py:1) 100
no stack at all
"""


def samples(raw, *, steps=10, text=PROGRAM):
    """Steps of 100 ms each."""
    sources = Sources(lambda file: text)
    bounds = [k / 10 for k in range(steps + 1)]
    rank = outside_samples(
        stacks_of(raw.splitlines()), rank=0, pid=1, world_size=1, first_step=5, bounds_s=bounds, owner=owner_of_line,
        sources=sources,
    )  # fmt: skip
    return rank, sources


def test_a_call_that_is_alone_in_its_line_is_named_and_one_of_several_is_not():
    rank, sources = samples(RAW)
    (found,) = [each for each in profile_of([rank], sources, asked_warmup=0).findings if each.code == "P101"]
    # Line 5 has two calls, and line 6 works.
    assert (found.cause, found.site, found.cost_ms_per_step) == (Cause.SLEEP, "/x/train.py:4", pytest.approx(30))
    alone, sources = samples(RAW, text=PROGRAM.replace("float(loss.item())", "loss.item()"))
    causes = {each.cause for each in profile_of([alone], sources, asked_warmup=0).findings}
    assert causes == {Cause.SLEEP, Cause.ITEM}


def test_shares_are_of_the_program_s_innermost_lines():
    raw = "thread (1): MainThread;main (/x/train.py:3);wait (/usr/lib/python3.11/threading.py:7) 3\n" + RAW
    shares = line_shares(stacks_of(raw.splitlines()), owner_of_line)
    assert [site for site, _ in shares] == ["/x/train.py:5", "/x/train.py:4", "/x/train.py:6", "/x/train.py:3"]
    assert sum(share for _, share in shares) == pytest.approx(1.0)


@pytest.mark.skipif(find_spy() is None, reason="py-spy is not here")
def test_a_process_that_runs_is_sampled_and_goes_on(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM.replace("value = float(loss.item())", "print(1, flush=True)"))
    with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"1\n"
            gone = subprocess.Popen([sys.executable, "-c", ""])
            gone.wait()
            ranks = [FoundRank(rank=k, pid=pid, is_numbered=True) for k, pid in enumerate((child.pid, gone.pid))]
            found = record_stacks(ranks, 1)
            assert child.poll() is None
        finally:
            child.kill()
    assert isinstance(found[1], str)
    if isinstance(found[0], str):
        pytest.skip(f"this machine lets nobody read a process: {found[0]}")
    assert f"{path}:4" in dict(line_shares(found[0], owner_of_line))
