"""While a job goes on its watcher reads the words of its rings alone; whatever may matter is read at once."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from emberward.events import CollectiveOp, Group
from emberward.sources.live import Watcher
from emberward.sources.live._alike import are_alike
from emberward.sources.live._quiet import QUIET_S, START_S, Pulses
from emberward.sources.live._take import newest_rings
from emberward.sources.ring import Geometry, MarkKind, RingWriter, identity_here, read_ring, ring_name
from emberward.sources.ring._format import OP_OF_COLLECTIVE, OP_RECV, OP_SEND, CallFlag

WORLD = Group(ranks=(0, 1), label="world")
SMALL = Geometry(num_groups=4, num_marks=16, num_slots=32, table_bytes=4096, blob_bytes=1024)
OP = OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE]


@pytest.fixture
def writers(tmp_path: Path):
    made = [
        RingWriter(
            tmp_path / ring_name(rank=rank, pid=os.getpid()),
            identity_here(rank=rank, world_size=2, local_rank=rank),
            geometry=SMALL,
        )
        for rank in (0, 1)
    ]
    yield made
    for writer in made:
        writer.close()


def call(writer: RingWriter, *, numel: int = 4, line: int = 7) -> None:
    group = writer.group(WORLD)
    site = writer.site("/jobs/train.py", line, "step")
    writer.done(writer.call(OP, group, numel, 1, site, CallFlag.BLOCKING, reduce_op=1), group)


class Job:
    """Rings in a folder whose ranks go on, and the pulses that were learnt of them at second START_S + 1."""

    def __init__(self, folder: Path, writers: list[RingWriter]) -> None:
        self.folder, self.writers = folder, writers
        self.pulses = Pulses()
        self.learn(0.0)
        self.learn(START_S + 1)

    def learn(self, now_s: float, **notice_s: float) -> None:
        for writer in self.writers:
            call(writer)
        self.pulses.learn(
            self.folder, newest_rings(self.folder, num_events=0), notice_s=notice_s or {}, num_exits=0, now_s=now_s
        )

    def goes_on(self, after_s: float, *, num_exits: int = 0) -> bool:
        return self.pulses.goes_on(self.folder, num_exits=num_exits, now_s=START_S + 1 + after_s)


@pytest.fixture
def job(tmp_path: Path, writers: list[RingWriter]) -> Job:
    return Job(tmp_path, writers)


def test_a_job_goes_on_while_every_rank_calls(job: Job) -> None:
    for second in range(1, 60):
        for writer in job.writers:
            call(writer)
        assert job.goes_on(float(second))


def test_one_rank_that_stands_is_read_before_it_is_worth_a_word(job: Job) -> None:
    for tenth in range(1, 200):
        call(job.writers[0])
        if not job.goes_on(tenth / 10):
            break
    assert QUIET_S <= tenth / 10 < QUIET_S + 0.5


@pytest.mark.parametrize("what", ["exception", "exit code", "another ring", "ring gone", "start"])
def test_what_may_matter_is_read_at_once(job: Job, tmp_path: Path, what: str) -> None:
    assert job.goes_on(1.0)
    exits = 0
    if what == "exception":
        job.writers[1].moment(MarkKind.EXCEPTION, "ValueError: no")
    elif what == "exit code":
        exits = 1
    elif what == "another ring":
        RingWriter(tmp_path / "rank00002-1.ring", identity_here(rank=2, world_size=3, local_rank=2)).close()
    elif what == "ring gone":
        job.writers[1].path.unlink()
    else:
        job = Job(tmp_path, job.writers)
        job.pulses = Pulses()
        job.learn(START_S)
    assert not job.goes_on(2.0, num_exits=exits)


def test_a_process_that_is_gone_is_seen_at_once(tmp_path: Path, job: Job) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    views = newest_rings(tmp_path, num_events=0)
    views[1] = replace(views[1], pid=ended.pid, start_ticks=None)
    job.pulses.learn(tmp_path, views, notice_s={}, num_exits=0, now_s=START_S + 1)
    ended.wait(60.0)
    assert not job.goes_on(0.5)


def test_a_rank_in_a_long_pause_of_its_own_is_left_in_peace(tmp_path: Path, job: Job) -> None:
    views = newest_rings(tmp_path, num_events=0)
    job.pulses.learn(tmp_path, views, notice_s={0: 30.0, 1: 30.0}, num_exits=0, now_s=START_S + 1)
    assert job.goes_on(20.0)
    for writer in job.writers:
        call(writer)
    assert job.goes_on(25.0), "it has moved"
    assert not job.goes_on(25.0 + QUIET_S + 1), "what it does now is not known to be long"


def test_the_watcher_of_a_healthy_job_reads_its_rings_for_the_check_alone(
    tmp_path: Path, writers: list[RingWriter]
) -> None:
    now_s, reads = 0.0, []

    def read(folder: Path, num_events: int | None):
        reads.append(now_s)
        return newest_rings(folder, num_events=num_events)

    watcher = Watcher(tmp_path, clock=lambda: now_s, read=read)
    for second in range(300):
        now_s = float(second)
        for writer in writers:
            call(writer)
        report = watcher.poll()
        assert (report.findings, report.is_still) == ((), False)
    late = [second for second in reads if second >= 200]
    assert len(set(late)) == 10, "every ten seconds"


def views_of(writers: list[RingWriter]):
    return {rank: read_ring(writer.path) for rank, writer in enumerate(writers)}


def test_equal_calls_are_not_judged(writers: list[RingWriter]) -> None:
    for writer in writers:
        call(writer)
        call(writer, numel=8, line=9)
    call(writers[0])
    one, other = writers
    one.call(OP_SEND, one.group(WORLD), 4, 1, peer=1, tag=3)
    other.call(OP_RECV, other.group(WORLD), 4, 1, peer=0, tag=3)
    assert are_alike(views_of(writers))


@pytest.mark.parametrize("odd", [{"numel": 5}, {"line": 8}])
def test_calls_that_differ_are_judged(writers: list[RingWriter], odd: dict[str, int]) -> None:
    call(writers[0])
    call(writers[1], **odd)
    assert not are_alike(views_of(writers))


def test_a_transfer_that_differs_is_judged(writers: list[RingWriter]) -> None:
    one, other = writers
    one.call(OP_SEND, one.group(WORLD), 4, 1, peer=1, tag=3)
    other.call(OP_RECV, other.group(WORLD), 5, 1, peer=0, tag=3)
    assert not are_alike(views_of(writers))
