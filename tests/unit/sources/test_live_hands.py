"""The hands of the live judge: processes, jobs found by their processes, limits, and a watcher over real rings."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from unit.sources.live_snapshots import ALL_REDUCE, PROGRAM, process, rank_snapshot, ring, snapshot, stack, waiting

from emberward.diagnose import Frame
from emberward.diagnose.live import ProcessFacts, ProcessState, RankSnapshot, Snapshot, WaitingIn
from emberward.diagnose.live._wire import from_plain, to_plain
from emberward.events import CollectiveOp, Group
from emberward.findings import Cause, Severity
from emberward.sources.dumps import limits_of, ring_facts
from emberward.sources.live import (
    FoundJob,
    FoundRank,
    LiveExplanation,
    Watcher,
    explain_pids,
    find_job,
    read_process_facts,
)
from emberward.sources.live._process import waiting_in
from emberward.sources.live._take import siblings, snapshot_of_rings
from emberward.sources.ring import MarkKind, RingView, RingWriter, identity_here, read_ring, ring_name
from emberward.sources.ring._format import OP_OF_COLLECTIVE, CallFlag

WORLD = Group(ranks=(0, 1), label="world")


def no_text(_: Frame) -> str | None:
    return None


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    code = "import subprocess, sys, time; print(flush=True); time.sleep(600)"
    env = {**os.environ, "RANK": "3", "WORLD_SIZE": "8"}
    with subprocess.Popen([sys.executable, "-S", "-c", code], env=env, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_what_the_kernel_says_of_a_process(sleeper: subprocess.Popen[bytes]) -> None:
    facts = read_process_facts(sleeper.pid)
    assert facts.is_alive
    assert facts.parent_pid == os.getpid()
    assert facts.main is not None
    assert from_plain(ProcessFacts, json.loads(json.dumps(to_plain(facts)))) == facts


def test_the_kernel_tells_when_a_sleep_ends(sleeper: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + 60
    while (main := read_process_facts(sleeper.pid).main) is None or main.waiting_in is not WaitingIn.NANOSLEEP:
        assert time.monotonic() < until_s
    assert main.wakes_in_s is not None
    assert 400 < main.wakes_in_s <= 600


@pytest.mark.parametrize(
    ("wait", "call"),
    [
        ("threading.Event().wait(600)", WaitingIn.FUTEX_TIMED),
        ("select.select([sys.stdin], [], [], 600)", WaitingIn.POLL),
    ],
)
def test_a_wait_that_a_look_interrupted_is_still_known(wait: str, call: WaitingIn) -> None:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", f"import select, sys, threading; {wait}"], stdin=subprocess.PIPE
    ) as child:
        for signals in ((), (signal.SIGSTOP, signal.SIGCONT)):
            for number in signals:
                child.send_signal(number)
                os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WCONTINUED)
            end_s, found = time.monotonic() + 20.0, None
            while found is not call and time.monotonic() < end_s:
                main = read_process_facts(child.pid).main
                found = None if main is None else main.waiting_in
            assert found is call
        child.kill()


LOOPS = {
    "itself": ("asyncio.Event().wait()", WaitingIn.EVENT),
    "for a time": ("asyncio.sleep(600)", WaitingIn.POLL),
    "a pipe": ("asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)", WaitingIn.POLL),
}


@pytest.mark.parametrize("watched", LOOPS)
def test_an_event_loop_that_only_itself_can_wake_is_known_by_its_files(watched: str) -> None:
    """By the kernel's word: the name of the loop's package is the same for one that waits for a connection."""
    what, call = LOOPS[watched]
    keep = "" if call is WaitingIn.EVENT or watched == "for a time" else "; await kept.stdout.read()"
    code = f"import asyncio\nasync def run():\n    kept = await {what}{keep}\nasyncio.run(run())"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.DEVNULL) as child:
        end_s, found = time.monotonic() + 20.0, None
        while found is not call and time.monotonic() < end_s:
            main = read_process_facts(child.pid).main
            found = None if main is None else main.waiting_in
        child.kill()
    assert found is call


def test_how_a_process_ended_is_read_before_its_parent_asks(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    facts = read_process_facts(sleeper.pid)
    assert (facts.state, facts.exit_code, facts.is_alive) == (ProcessState.ZOMBIE, -9, False)


def test_no_process_is_gone() -> None:
    assert read_process_facts(2**22 + 17).state is ProcessState.GONE


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("202 0x7f 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe 0x7f", WaitingIn.FUTEX),
        ("202 0x7f 0x109 0x0 0x0 0x0 0xffffffff 0x7ffe 0x7f", WaitingIn.FUTEX_SHARED),
        ("202 0x7f 0x109 0x3433 0x0 0x0 0xffffffff 0x7ffe 0x7f", WaitingIn.JOIN),
        ("202 0x7f 0x109 0x3434 0x0 0x0 0xffffffff 0x7ffe 0x7f", WaitingIn.FUTEX_SHARED),
        ("202 0x7f 0x109 0x3433 0x7f 0x0 0xffffffff 0x7ffe 0x7f", WaitingIn.FUTEX_TIMED),
        ("202 0x7f 0x189 0x0 0x7ffd5 0x0 0xffffffff 0x7ffe 0x7f", WaitingIn.FUTEX_TIMED),
        ("230 0x1 0x1 0x7f 0x0 0x0 0x0 0x7f 0x7f", WaitingIn.NANOSLEEP),
        ("61 0xffffffff 0x7f 0x0 0x0 0x0 0x0 0x7f 0x7f", WaitingIn.CHILD),
        ("running", None),
        ("", None),
        (None, None),
    ],
)
def test_the_call_that_a_thread_sits_in(text: str | None, call: WaitingIn | None) -> None:
    assert waiting_in(text, machine="x86_64", tids=(0x3433,)) is call


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_a_rank_is_found_by_its_environment(sleeper: subprocess.Popen[bytes]) -> None:
    job = find_job([sleeper.pid])
    assert [(found.rank, found.pid, found.is_numbered) for found in job.ranks] == [(3, sleeper.pid, True)]
    assert job.world_size == 8


def test_a_launcher_gives_the_ranks_below_it_and_not_their_children() -> None:
    rank = "import os, sys, time; os.fork(); print(flush=True); time.sleep(600)"
    launcher = (
        "import os, subprocess, sys\n"
        f"ranks = [subprocess.Popen([sys.executable, '-S', '-c', {rank!r}], env={{**os.environ, 'RANK': str(r), "
        "'WORLD_SIZE': '2'}) for r in range(2)]\n"
        "print(*[r.pid for r in ranks], flush=True)\n"
        "for r in ranks: r.wait()\n"
    )
    env = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    command = [sys.executable, "-S", "-c", launcher]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        assert parent.stdout is not None
        lines = [parent.stdout.readline() for _ in range(5)]
        pids = next([int(word) for word in line.split()] for line in lines if line.strip())
        job = find_job([parent.pid])
        os.killpg(parent.pid, 9)
    assert [(found.rank, found.pid) for found in job.ranks] == [(0, pids[0]), (1, pids[1])]


def test_one_rank_gives_its_peers_and_none_of_another_job() -> None:
    program = "import time; print(flush=True); time.sleep(600)"
    started = []
    for rank, port in ((0, "29500"), (1, "29500"), (1, "29501")):
        told = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-S", "-c", program]
        started.append(subprocess.Popen(command, env={**os.environ, **told}, stdout=subprocess.PIPE))
    try:
        for each in started:
            assert each.stdout is not None
            each.stdout.readline()
        job = find_job([started[1].pid])
    finally:
        for each in started:
            with each:
                each.kill()
    assert [(found.rank, found.pid) for found in job.ranks] == [(0, started[0].pid), (1, started[1].pid)]


def test_no_rank_is_said_in_these_words() -> None:
    explained = explain_pids([2**22 + 17], line_of=no_text)
    (finding,) = explained.findings
    assert finding.code == "H107"
    assert finding.message == (
        "cannot tell: no rank was found at or below process 4194321: process 4194321 is not there"
    )
    assert finding.severity is Severity.WARNING


def job_of(*ranks: int, is_numbered: bool = True) -> FoundJob:
    found = tuple(FoundRank(rank=rank, pid=1000 + rank, is_numbered=is_numbered) for rank in ranks)
    return FoundJob(ranks=found, world_size=len(ranks))


def test_a_process_that_may_not_be_looked_at_is_said_in_these_words() -> None:
    blind = replace(waiting(1), stacks=(), ring=None, problems=("no stack of process 1001: Permission denied",))
    explained = explain_pids(
        [1],
        line_of=no_text,
        find=lambda _: job_of(0, 1),
        take=lambda _: snapshot(waiting(0), blind),
        wait=lambda _: None,
    )
    finding = explained.findings[-1]
    assert finding.code == "H126"
    assert finding.message == "no stack of rank 1 could be read: no stack of process 1001: Permission denied"
    assert finding.next == (
        "run as root or as the parent's user with CAP_SYS_PTRACE; kernel.yama.ptrace_scope must allow it"
    )


def test_all_looked_at_is_no_complaint_and_processes_without_rank_are_named_by_number() -> None:
    busy = rank_snapshot(1, stack(1001, 30), None, state=ProcessState.STOPPED)
    explained = explain_pids(
        [1],
        line_of=no_text,
        find=lambda _: job_of(0, 1, is_numbered=False),
        take=lambda _: snapshot(replace(waiting(0), ring=None), busy),
        wait=lambda _: None,
    )
    (finding,) = explained.findings
    assert (finding.code, finding.culprit_ranks, finding.culprit_pids) == ("H125", (), (1001,))
    assert finding.evidence[-1] == (
        "no process tells its rank: they are numbered by their start; 0 is process 1000, 1 is process 1001"
    )


def explained_by(*snapshots: Snapshot, jobs: Sequence[FoundJob] = ()) -> LiveExplanation:
    """The verdict on two ranks that nobody recorded, from as many snapshots as it asks for."""
    shown = iter(replace(each, taken_s=100.0 + 4 * number) for number, each in enumerate(snapshots))
    found = itertools.chain(jobs, itertools.repeat(job_of(0, 1)))
    return explain_pids(
        [1], line_of=text_of_a_loop, find=lambda _: next(found), take=lambda _: next(shown), wait=lambda _: None
    )


def text_of_a_loop(frame: Frame) -> str | None:
    """Line 30 stands in a loop, line 40 behind it."""
    texts = {29: "    for batch in data:", 30: "        loss(batch).backward()", 40: "    dist.barrier()"}
    return texts.get(frame.line or 0, "def step():" if frame.line == 28 else "") if frame.file == PROGRAM else None


def unrecorded(rank: int, line: int) -> RankSnapshot:
    return rank_snapshot(rank, stack(1000 + rank, line, *ALL_REDUCE), None)


def test_snapshots_are_taken_until_nobody_moved_between_two() -> None:
    hung = snapshot(unrecorded(0, 30), unrecorded(1, 40))
    explained = explained_by(snapshot(unrecorded(0, 30), unrecorded(1, 30)), hung, hung)
    assert (explained.findings[0].severity, explained.findings[0].culprit_ranks) == (Severity.ERROR, (1,))
    assert explained.read == ("2 ranks", "2 stacks, 3 times")


def test_the_look_alike_a_job_that_goes_on_is_no_error_and_not_looked_at_for_ever() -> None:
    first, second = snapshot(unrecorded(0, 30), unrecorded(1, 40)), snapshot(unrecorded(0, 40), unrecorded(1, 30))
    explained = explained_by(*[first, second] * 2)
    assert [each.severity for each in explained.findings] == [Severity.WARNING]
    assert explained.read == ("2 ranks", "2 stacks, 4 times")


def test_ranks_that_a_launcher_starts_later_are_looked_for_again() -> None:
    hung = snapshot(unrecorded(0, 30), unrecorded(1, 40))
    explained = explained_by(snapshot(unrecorded(0, 30)), hung, hung, jobs=[replace(job_of(0), world_size=2)])
    assert [found.rank for found in explained.job.ranks] == [0, 1]
    assert explained.findings[0].culprit_ranks == (1,)


def test_ranks_that_never_began_to_record_are_found_beside_those_that_did(
    start: Callable[[str, str], subprocess.Popen[bytes]],
) -> None:
    began, late, other = start("0", "29500"), start("1", "29500"), start("2", "29777")
    found = siblings({0: read_process_facts(began.pid)}, 4)
    assert {rank: facts.pid for rank, facts in found.items()} == {1: late.pid}
    assert other.pid not in [facts.pid for facts in found.values()], "a rank of another job of the same parent"
    assert siblings({0: read_process_facts(began.pid)}, 1) == {}


@pytest.fixture
def start() -> Iterator[Callable[[str, str], subprocess.Popen[bytes]]]:
    children: list[subprocess.Popen[bytes]] = []

    def one(rank: str, port: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "RANK": rank, "WORLD_SIZE": "4", "MASTER_PORT": port}
        code = "import time; print(flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-S", "-c", code], env=env, stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield one
    for child in children:
        child.kill()
        child.communicate(timeout=60.0)


# -- limits and the watcher --------------------------------------------------------------------------------------------


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RingWriter]:
    identity = identity_here(rank=0, world_size=2, local_rank=0)
    writer = RingWriter(tmp_path / ring_name(rank=0, pid=os.getpid()), identity)
    yield writer
    writer.close()


def fill(writer: RingWriter, num_calls: int) -> None:
    group = writer.group(WORLD)
    site = writer.site("/job/train.py", 43, "step")
    for _ in range(num_calls):
        writer.done(writer.call(OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE], group, 8, 1, site, CallFlag.BLOCKING), group)


def rounds(writer: RingWriter, num_rounds: int) -> None:
    """Rounds of a broadcast, an all-reduce and a backward, then one more broadcast."""
    group, site = writer.group(WORLD), writer.site("/job/train.py", 40, "step")
    trainer = writer.site("/job/train.py", 66, "<module>", "/env/trainer.py:265")
    for n in range(num_rounds + 1):
        writer.done(writer.call(OP_OF_COLLECTIVE[CollectiveOp.BROADCAST], group, 8, 1, trainer), group)
        if n < num_rounds:
            writer.done(writer.call(OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE], group, 4, 1, site), group)
            writer.end(writer.begin(MarkKind.BACKWARD, site=trainer))


@pytest.mark.parametrize(("num_rounds", "lacks"), [(4, 40), (2, None)])
def test_a_backward_instead_of_the_call_that_came_there_in_each_round_lacks_it(writer, num_rounds, lacks) -> None:
    """The handler of a signal makes a call inside the backward: no part of the program's order."""
    rounds(writer, num_rounds)
    trainer = writer.site("/job/train.py", 66, "<module>", "/env/trainer.py:265")
    handler = writer.site("/job/train.py", 66, "<module>", "/env/signals.py:118")
    mark = writer.begin(MarkKind.BACKWARD, site=trainer)
    writer.call(OP_OF_COLLECTIVE[CollectiveOp.BROADCAST], writer.group(WORLD), 8, 1, handler)
    writer.end(mark)
    facts = ring_facts(read_ring(writer.path))
    assert (None if facts.lacks is None else facts.lacks.line, facts.open_call) == (lacks, None)


def test_who_comes_to_the_call_that_comes_next_lacks_nothing(writer: RingWriter) -> None:
    rounds(writer, 4)
    site = writer.site("/job/train.py", 40, "step")
    writer.call(OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE], writer.group(WORLD), 4, 1, site)
    facts = ring_facts(read_ring(writer.path))
    assert facts.lacks is None
    assert facts.open_call is not None
    assert facts.open_call.line == 40


def test_a_job_without_a_past_gets_generous_limits(writer: RingWriter) -> None:
    fill(writer, 1)
    limits = limits_of(read_ring(writer.path))
    assert (limits.has_history, limits.notice_s, limits.limit_s) == (False, 4.0, 300.0)


def test_a_job_with_steps_behind_it_is_measured_by_them(writer: RingWriter) -> None:
    fill(writer, 20)
    limits = limits_of(read_ring(writer.path))
    assert (limits.has_history, limits.notice_s, limits.limit_s) == (True, 4.0, 75.0)


def test_a_slow_start_does_not_keep_the_watcher_from_looking(writer: RingWriter) -> None:
    fill(writer, 30)
    view = read_ring(writer.path)
    first = view.events[0]
    assert first.issued_ns is not None
    slow = replace(first, issued_ns=first.issued_ns - 40 * 10**9)
    limits = limits_of(replace(view, events=(slow, *view.events[1:])))
    assert (limits.notice_s, limits.limit_s > 190.0) == (4.0, True)


@pytest.mark.parametrize("kind", [MarkKind.EVAL, MarkKind.SAVE, MarkKind.COMPILE])
def test_the_first_of_a_long_phase_is_not_measured_by_steps(writer: RingWriter, kind: MarkKind) -> None:
    fill(writer, 20)
    writer.begin(kind)
    assert limits_of(read_ring(writer.path)).limit_s == 300.0


def test_a_long_phase_that_was_before_is_measured_by_itself(writer: RingWriter) -> None:
    fill(writer, 20)
    writer.end(writer.begin(MarkKind.EVAL))
    writer.begin(MarkKind.EVAL)
    assert limits_of(read_ring(writer.path)).limit_s == 75.0


def test_a_job_that_moves_is_not_looked_at(writer: RingWriter) -> None:
    fill(writer, 20)

    def refuse(_: object) -> Snapshot:
        raise AssertionError("nobody stands still")

    report = Watcher(writer.path.parent, take=refuse).poll()
    assert (report.findings, report.is_still, report.snapshot) == ((), False, None)


def still_view(writer: RingWriter) -> Snapshot:
    """Two ranks, the second of which sleeps, whatever the ring says."""
    sleeping = ring(num_done=6, is_inside=False, world=2)
    busy = replace(rank_snapshot(1, stack(1001, 30), sleeping), process=process(1, waiting_in=WaitingIn.NANOSLEEP))
    return snapshot(waiting(0, world=2), busy)


def test_what_was_said_is_said_once_and_taken_back_when_the_job_moves(writer: RingWriter) -> None:
    fill(writer, 20)
    age_s = 6.0

    def read(_: Path, num_events: int | None) -> dict[int, RingView]:
        return {0: replace(read_ring(writer.path, num_events=num_events), moved_age_s=age_s)}

    ticks = itertools.count(step=10.0)
    watcher = Watcher(writer.path.parent, clock=lambda: next(ticks), take=lambda _: still_view(writer), read=read)
    first, second = watcher.poll(), watcher.poll()
    assert [f.cause for f in first.findings] == [Cause.SLEEP]
    assert second.findings == ()
    assert second.is_still
    age_s = 0.1
    assert [f.cause for f in watcher.poll().resolved] == [Cause.SLEEP]
    assert watcher.poll().resolved == ()


def test_a_watcher_that_fails_says_so_in_these_words_and_goes_on(tmp_path: Path) -> None:
    def broken() -> float:
        raise ZeroDivisionError("no clock")

    watcher = Watcher(tmp_path, clock=broken)
    (finding,) = watcher.poll().findings
    assert finding.code == "H127"
    assert finding.message == "the watcher of live jobs failed: ZeroDivisionError: no clock"
    assert finding.severity is Severity.WARNING
    assert watcher.poll().findings == (), "the same failure is said once"


def test_an_empty_folder_is_no_failure(tmp_path: Path) -> None:
    report = Watcher(tmp_path / "not there").poll()
    assert (report.findings, report.resolved) == ((), ())


def test_a_ring_that_grows_while_stacks_are_taken_is_read_again(tmp_path: Path) -> None:
    writer = RingWriter(
        tmp_path / ring_name(rank=0, pid=os.getpid()), identity_here(rank=0, world_size=1, local_rank=0)
    )
    group = writer.group(WORLD)
    still = read_ring(writer.path)
    assert not snapshot_of_rings({0: still}).ranks[0].has_moved
    writer.call(OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE], group, 4, 1)
    snapshot = Snapshot.from_json(snapshot_of_rings({0: still}).to_json())
    writer.close()
    assert snapshot.ranks[0].has_moved
    assert snapshot.ranks[0].own_stacks is None, "a stack of another moment than the ring"
    assert snapshot.ranks[0].ring is not None
    assert snapshot.ranks[0].ring.num_calls == 1
