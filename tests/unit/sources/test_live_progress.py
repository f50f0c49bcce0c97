"""What time alone makes suspect, and what defers it: a table of situations, each with those that look like it."""

import json
from dataclasses import replace

import pytest
from unit.sources.live_snapshots import QUEUE_GET, helper, rank_snapshot, ring, snapshot, stack, waiting

from emberward.diagnose import Frame
from emberward.diagnose.live import Snapshot, WaitingIn
from emberward.findings import Certainty, Severity
from emberward.sources.live import judge_with_progress

TEXT = {20: "    dist.all_reduce(x)", 30: "    time.sleep(2)", 31: "    with guard:", 32: "    line.sendall(part)"}
OTHERS = (waiting(0), waiting(1), waiting(3))
POOL = ("_worker", "/py/lib/python3.11/concurrent/futures/thread.py", 81)
COPY = ("copyfileobj", "/py/lib/python3.11/shutil.py", 200)
SEND = ("send", "/env/lib/python3.11/site-packages/urllib3/connection.py", 50)
HEART = ("beat", "/env/lib/python3.11/site-packages/emberward/sources/_heartbeat.py", 90)
BOOT = ("run", "/py/lib/python3.11/threading.py", 982)
LONG_S = 500.0


def line_of(frame):
    return TEXT.get(frame.line or 0) if frame.file == "/job/train.py" else None


def judged(line, *inner, threads=(), returned=(), still_s=LONG_S, early=None, **changes):
    """The finding and the progress when rank 2 is at `line`; `returned`: threads that came back from a system call."""
    facts = ring(num_done=6, is_inside=False, still_s=still_s)
    seen = rank_snapshot(2, stack(1002, line, *inner), facts, *threads, **changes)
    main = seen.process.threads[0]
    rows = [replace(main, switches=40 + (1002 in returned))]
    waits = changes.get("waiting_in")
    rows += [
        replace(main, tid=t.os_thread_id, switches=40 + (t.os_thread_id in returned), waiting_in=waits) for t in threads
    ]
    late = replace(seen, process=replace(seen.process, threads=tuple(rows)))
    before = {row.tid: 40 for row in rows}
    first = replace(late if early is None else early, switches_after=before)
    (finding,), progress = judge_with_progress(
        snapshot(*OTHERS, first), snapshot(*OTHERS, late, taken_s=104.0), line_of=line_of
    )
    return finding, progress.get(2)


def thread(tid, *frames):
    made = helper(tid, 30)
    return replace(made, frames=tuple(Frame(function=name, file=file, line=line) for name, file, line in frames))


BEATS = thread(7, HEART, BOOT)
"""The recorder's own thread: that it wakes is no progress of the program's."""


@pytest.mark.parametrize(
    ("situation", "severity", "progress"),
    [
        (dict(line=30, waiting_in=WaitingIn.NANOSLEEP), Severity.WARNING, None),
        (dict(line=30, waiting_in=WaitingIn.NANOSLEEP, still_s=60.0), Severity.NOTICE, None),
        # An upload: nothing but system calls that return, in the main thread or in a pool's.
        (dict(line=32, returned=(1002,)), Severity.WARNING, "its system calls return"),
        (dict(line=30, waiting_in=WaitingIn.NANOSLEEP, returned=(1002,)), Severity.WARNING, "its system calls return"),
        # A lock is proved while nobody is left to free it.
        (dict(line=31, waiting_in=WaitingIn.FUTEX, still_s=6.0), Severity.ERROR, None),
        (dict(line=31, waiting_in=WaitingIn.FUTEX, threads=(BEATS,), returned=(7,)), Severity.ERROR, None),
        (dict(line=31, waiting_in=WaitingIn.FUTEX_SHARED), Severity.WARNING, None),
        (dict(line=31, waiting_in=WaitingIn.FILE_LOCK), Severity.WARNING, None),
        (
            dict(line=31, waiting_in=WaitingIn.FUTEX, threads=(thread(7, COPY, POOL, BOOT),), returned=(7,)),
            Severity.WARNING,
            "its system calls return",
        ),
        (
            dict(line=31, waiting_in=WaitingIn.FUTEX, threads=(thread(7, SEND, POOL, BOOT),), returned=(7,)),
            Severity.WARNING,
            "its system calls return",
        ),
    ],
)  # fmt: skip
def test_time_alone_makes_no_error_and_what_goes_on_is_seen(situation, severity, progress):
    finding, seen = judged(situation.pop("line"), **situation)
    assert (finding.severity, seen) == (severity, progress)
    if progress is not None:
        assert any(line.endswith(progress) for line in finding.evidence)
    assert finding.certainty is not Certainty.PROVED


def test_a_wait_in_slices_of_time_is_no_progress():
    """A queue's `get` with a time-out returns and begins again, whether anything comes or not."""
    _, progress = judged(40, *QUEUE_GET, waiting_in=WaitingIn.FUTEX_TIMED, returned=(1002,))
    assert progress is None


def test_a_rank_at_work_is_a_notice_for_as_long_as_it_takes():
    facts = ring(num_done=6, is_inside=False, still_s=LONG_S)
    early = rank_snapshot(2, stack(1002, 32), facts, ticks=100)
    finding, progress = judged(32, early=early, ticks=400)
    assert (finding.severity, progress) == (Severity.NOTICE, "its main thread used 75% of a core")


def test_what_shows_progress_travels_as_json():
    seen = replace(waiting(2), switches_after={1002: 41})
    sent = Snapshot.from_json(json.loads(json.dumps(snapshot(seen).to_json())))
    assert sent.ranks[2].switches_after == {1002: 41}
