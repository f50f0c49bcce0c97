"""The ring: what is written is read; what was torn, overwritten or damaged is left out and said."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from emberward.events import Barrier, Collective, CollectiveOp, Group, LaneKind, Send, Stage, State, Wait
from emberward.sources.ring import (
    Geometry,
    MarkKind,
    RingWriter,
    find_rings,
    gap_findings,
    identity_here,
    new_ring_folder,
    pulse_of,
    read_ring,
    remove_ring_folder,
    ring_name,
    unattached_findings,
)
from emberward.sources.ring._format import OP_BARRIER, OP_OF_COLLECTIVE, OP_SEND, OP_WAIT, SLOT_BYTES, CallFlag
from emberward.sources.ring._reader import view_of

ALL_REDUCE = OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE]
WORLD = Group(ranks=(0, 1, 2, 3), label="world")
SMALL = Geometry(num_groups=4, num_marks=16, num_slots=32, table_bytes=4096, blob_bytes=1024)


@pytest.fixture
def writer(tmp_path):
    identity = identity_here(rank=3, world_size=4, local_rank=1)
    writer = RingWriter(tmp_path / ring_name(rank=3, pid=os.getpid()), identity, geometry=SMALL)
    yield writer
    writer.close()


def fill(writer: RingWriter, *, num_calls: int = 3) -> None:
    group = writer.group(WORLD)
    site = writer.site("/jobs/train.py", 43, "step")
    for _ in range(num_calls):
        number = writer.call(ALL_REDUCE, group, 128, 1, site, CallFlag.BLOCKING, reduce_op=1)
        writer.done(number, group)


def test_what_is_written_is_read(writer):
    fill(writer)
    view = read_ring(writer.path)
    assert view.is_readable
    assert view.is_complete
    assert (view.rank, view.world_size, view.local_rank, view.pid) == (3, 4, 1, os.getpid())
    assert view.start_ticks == writer.identity.start_ticks
    assert view.problems == ()
    assert [event.body for event in view.events] == [
        Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=128, reduce_op="sum")
    ] * 3
    assert [str(event.site) for event in view.events] == ["/jobs/train.py:43"] * 3
    assert [event.state for event in view.events] == [State.COMPLETED] * 3
    assert [view.sequences[event.ref] for event in view.events] == [1, 2, 3]
    assert view.groups[WORLD].issued == view.groups[WORLD].completed == 3
    assert view.groups[WORLD].sequence is None


def test_a_call_under_way_and_the_wait_for_it(writer):
    group = writer.group(WORLD)
    sent = writer.call(OP_SEND, group, 8, 4, peer=2, tag=7)
    meeting = writer.call(OP_BARRIER, group, flags=CallFlag.BLOCKING)
    writer.done(meeting, group)
    writer.call(OP_WAIT, 0, target=sent)
    view = read_ring(writer.path)
    send, barrier, wait = view.events
    assert isinstance(send.body, Send)
    assert (send.body.peer, send.body.tag, send.body.dtype, send.lane.kind) == (2, 7, "bfloat16", LaneKind.COMM)
    assert barrier.body == Barrier(group=WORLD)
    assert wait.body == Wait(on=send.ref)
    assert [event.state for event in view.events] == [State.ISSUED, State.COMPLETED, State.ISSUED]
    assert view.groups[WORLD].p2p_issued == 1
    assert view.groups[WORLD].p2p_completed == 0


def test_a_call_that_raised_is_no_call_that_completed(writer):
    writer.raised(writer.call(ALL_REDUCE, writer.group(WORLD), 4, 1))
    view = read_ring(writer.path)
    assert view.events[0].state is State.ISSUED
    assert view.failures == {view.events[0].ref}


def test_phases_marks_and_steps(writer):
    writer.step(7)
    data = writer.begin(MarkKind.DATA)
    writer.end(data)
    evaluation = writer.begin(MarkKind.EVAL, "valid")
    for _ in range(40):
        writer.end(writer.begin(MarkKind.DATA))
    fill(writer, num_calls=1)
    view = read_ring(writer.path)
    assert (view.step, view.phase.stage, view.phase.name) == (7, Stage.EVAL, "valid")
    assert view.events[0].phase == view.phase
    # 42 marks into 16 slots: the open one is still there.
    assert [mark.kind for mark in view.open_marks] == [MarkKind.EVAL]
    assert view.phase_age_s is not None
    writer.end(evaluation)
    view = read_ring(writer.path)
    assert view.phase.stage is None
    assert view.open_marks == ()


def test_what_counts_as_motion(writer):
    """Each kind of motion is the last one in turn; a beat is none."""

    later_ns = time.monotonic_ns() + 1_000_000_000_000

    def moved_at() -> float:
        view = view_of(writer.path.read_bytes(), path=writer.path, now_ns=later_ns, now_unix=0.0)
        writer.beat()
        return float("inf") if view.moved_age_s is None else view.moved_age_s

    group = writer.group(WORLD)
    ages = [moved_at(), moved_at()]
    assert ages == [float("inf")] * 2
    number = writer.call(OP_SEND, group, 8, 4, peer=2, tag=7)
    ages.append(moved_at())
    writer.done(number, group, is_transfer=True)
    ages.append(moved_at())
    mark = writer.begin(MarkKind.SAVE)
    ages.append(moved_at())
    writer.end(mark)
    ages.append(moved_at())
    writer.sequence(group, 1)
    ages.append(moved_at())
    assert ages[1:] == sorted(set(ages), reverse=True)
    assert moved_at() == ages[-1]


def test_marks_of_another_thread_do_not_change_the_phase(writer):
    thread = threading.Thread(target=lambda: writer.begin(MarkKind.SAVE), name="saver")
    thread.start()
    thread.join()
    view = read_ring(writer.path)
    assert [mark.kind for mark in view.open_marks] == [MarkKind.SAVE]
    assert view.threads[view.open_marks[0].thread].name == "saver"
    assert view.phase.stage is None


def test_the_last_calls_stay_and_their_numbers_count_on(writer):
    fill(writer, num_calls=100)
    view = read_ring(writer.path)
    assert not view.is_complete
    assert view.num_calls == 100
    assert [view.sequences[event.ref] for event in view.events] == list(range(69, 101))
    assert len(read_ring(writer.path, num_events=5).events) == 5
    nothing = read_ring(writer.path, num_events=0)
    assert (nothing.events, nothing.sites) == ((), read_ring(writer.path).sites)


def test_a_completion_that_comes_after_its_slot_was_taken_is_dropped(writer):
    group = writer.group(WORLD)
    first = writer.call(ALL_REDUCE, group, 1, 1)
    for _ in range(SMALL.num_slots):
        writer.call(ALL_REDUCE, group, 2, 1)
    writer.done(first, group)
    view = read_ring(writer.path)
    assert {event.state for event in view.events} == {State.ISSUED}
    assert view.groups[WORLD].completed == 1


def test_a_half_written_slot_is_left_out(writer):
    fill(writer)
    data = bytearray(writer.path.read_bytes())
    data[SMALL.slots_at + SLOT_BYTES + 20] ^= 1
    view = view_of(bytes(data), path=writer.path, now_ns=0, now_unix=0.0)
    assert [view.numbers[event.ref] for event in view.events] == [1, 3]
    assert not view.is_complete


def test_more_groups_and_names_than_there_is_room_for(writer):
    for index in range(6):
        writer.call(ALL_REDUCE, writer.group(Group(ranks=(3, index + 4))), 1, 1)
    for line in range(500):
        writer.site("/jobs/train.py", line, "step")
    view = read_ring(writer.path)
    assert len(view.groups) == 4
    assert len(view.events) == 6
    assert len(view.problems) == 2, view.problems


def test_certificate_heartbeat_and_flight_copy(writer):
    assert read_ring(writer.path).heartbeat_age_s is None
    assert read_ring(writer.path).certificate is None
    assert read_ring(writer.path).flight is None
    writer.beat()
    for position in range(3):
        writer.certify(position, 1000 + position)
    assert writer.flight(b"first")
    assert writer.flight(b"second" * 100)
    assert not writer.flight(random.Random(0).randbytes(5000))
    view = read_ring(writer.path)
    assert view.heartbeat_age_s is not None
    assert view.heartbeat_age_s < 60
    assert (view.certificate.position, view.certificate.digest) == (2, 1002)
    assert view.flight.data == b"second" * 100
    assert writer.sequence(writer.group(WORLD), 5)
    assert not writer.sequence(writer.group(WORLD), 5)
    assert read_ring(writer.path).groups[WORLD].sequence == 5


def test_ages_on_another_boot_come_from_the_wall_clock(writer):
    writer.beat()
    data = writer.path.read_bytes()
    began = writer.identity
    view = view_of(data, path=writer.path, now_ns=1, now_unix=began.began_unix + 100, boot="another")
    assert view.heartbeat_age_s == pytest.approx(100, abs=30)


def test_no_garbage_raises(writer):
    fill(writer, num_calls=20)
    writer.begin(MarkKind.EVAL, "valid")
    writer.flight(b"dump")
    writer.certify(1, 2)
    whole = writer.path.read_bytes()
    seed = int(os.environ.get("EMBERWARD_SEED", time.time_ns() % 1_000_000))
    choose = random.Random(seed)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(choose.choice((1, 5, 200))):
            at = choose.choice((choose.randrange(len(data)), choose.randrange(8192)))
            data[at] = choose.randrange(256)
        cut = bytes(data[: choose.choice((len(data), choose.randrange(len(data))))])
        view = view_of(cut, path=writer.path, now_ns=0, now_unix=0.0)
        assert view.is_readable or view.problems, seed
        assert len(view.events) <= SMALL.num_slots


@pytest.mark.parametrize("data", [b"", b"EMBRING\x01", b"\x80\x04}.", bytes(70_000)])
def test_a_file_that_is_no_ring_says_so(tmp_path, data):
    path = tmp_path / "rank00000-1.ring"
    path.write_bytes(data)
    view = read_ring(path)
    assert not view.is_readable
    assert view.problems == (f"{path.name} is no ring",)
    assert "No such file" in read_ring(tmp_path / "gone.ring").problems[0]


def test_a_full_disk_is_refused_before_anything_is_mapped(tmp_path):
    """A file-size limit stands for the full disk: posix_fallocate fails just so, with another error number."""
    program = """
import resource, signal, sys
from pathlib import Path
from emberward.sources.ring import RingWriter, identity_here
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
path = Path(sys.argv[1])
try:
    RingWriter(path, identity_here(rank=0, world_size=1, local_rank=0))
except OSError as error:
    print(error.errno, path.exists())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.ring")], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(errno.EFBIG), "False"]


def test_a_ring_outlives_a_killed_process(tmp_path, wait_until):
    program = """
import os, sys
from pathlib import Path
from emberward.events import Group
from emberward.sources.ring import RingWriter, identity_here
writer = RingWriter(Path(sys.argv[1]), identity_here(rank=1, world_size=2, local_rank=1))
group = writer.group(Group(ranks=(0, 1), label="world"))
while True:
    writer.done(writer.call(16, group, 4, 1), group)
    writer.beat()
"""
    path = tmp_path / "rank00001-1.ring"
    with subprocess.Popen([sys.executable, "-c", program, str(path)]) as child:
        wait_until(lambda: read_ring(path, num_events=0).num_calls > 5000, "calls")
        running = [read_ring(path) for _ in range(3)]
        child.send_signal(signal.SIGSTOP)
        stopped = read_ring(path)
        child.kill()
    dead = read_ring(path)
    assert dead.is_readable
    assert len(dead.events) >= 4095
    assert dead.num_calls >= stopped.num_calls > 0
    for view in running:
        assert view.events, "a reader beside a writer sees all but what was written under its eyes"
    assert dead.pid == child.pid


def test_what_could_not_be_recorded_becomes_a_finding(writer):
    folder = writer.path.parent
    assert unattached_findings(folder, host="node7") == ()
    assert gap_findings([read_ring(writer.path)]) == ()
    (folder / "problems-31.txt").write_text("pid 31: no recorder in this process: OSError: [Errno 28] No space left\n")
    writer.problem("broadcast not recorded: KeyError: 5")
    writer.problem("broadcast not recorded: KeyError: 5")
    (unattached,) = unattached_findings(folder, host="node7")
    (gap,) = gap_findings([read_ring(writer.path)])
    assert (unattached.code, unattached.severity, unattached.hosts) == ("H120", "warning", ("node7",))
    assert unattached.message == (
        "pid 31: no recorder in this process: OSError: [Errno 28] No space left; "
        f"expected a ring in {folder}; the job itself goes on"
    )
    assert (gap.code, gap.severity) == ("H121", "notice")
    assert gap.message == "rank 3: broadcast not recorded: KeyError: 5"


def test_folders_of_one_job_do_not_collide(tmp_path):
    folders = {new_ring_folder("my job/2", base=tmp_path) for _ in range(3)}
    assert len(folders) == 3
    for folder in folders:
        assert folder.name.startswith("my-job-2-")
        assert folder.stat().st_mode & 0o777 == 0o700
        remove_ring_folder(folder)
        assert not folder.exists()
        assert find_rings(folder) == ()


def test_the_default_folder_is_the_user_s_own():
    folder = new_ring_folder("test")
    try:
        assert folder.parent.stat().st_uid == os.getuid()
        assert folder.is_relative_to(Path("/dev/shm")) or not Path("/dev/shm").exists()
    finally:
        remove_ring_folder(folder)


def test_a_reading_of_a_part_says_what_a_whole_one_says(tmp_path):
    """Whenever the heart beat last: before the calls that count, long before, after a round of the slots, or never."""

    def told(view):
        return [(view.numbers[event.ref], event.issued_ns, event.completed_ns) for event in view.events]

    writer = RingWriter(tmp_path / "rank00003-1.ring", identity_here(rank=3, world_size=4, local_rank=1))
    for num_calls, beats in ((0, False), (3, False), (100, True), (400, True), (0, True), (3900, True), (300, False)):
        fill(writer, num_calls=num_calls)
        if beats:
            writer.beat()
        fill(writer, num_calls=2)
        whole = read_ring(writer.path)
        for num_events in (0, 1, 70, 1000):
            part = read_ring(writer.path, num_events=num_events)
            assert told(part) == (told(whole)[-num_events:] if num_events else []), (num_calls, num_events)
            assert (part.num_calls, part.step, part.groups, part.marks) == (
                whole.num_calls,
                whole.step,
                whole.groups,
                whole.marks,
            )
            assert part.problems == whole.problems
    assert whole.num_calls > Geometry().num_slots
    writer.close()


def test_the_pulse_changes_with_all_that_a_word_tells(writer):
    group = writer.group(WORLD)
    before = pulse_of(writer.path)
    writer.beat()
    assert pulse_of(writer.path) == before, "a heartbeat is no motion"
    call = writer.call(ALL_REDUCE, group, 4, 1)
    for act in (
        lambda: writer.done(call, group),
        lambda: writer.step(4),
        lambda: writer.begin(MarkKind.SAVE),
        lambda: writer.sequence(group, 3),
        lambda: writer.moment(MarkKind.EXCEPTION),
        lambda: writer.certify(1, 2),
        lambda: writer.problem("no room"),
    ):
        last = pulse_of(writer.path)
        act()
        assert pulse_of(writer.path) != last
    assert pulse_of(writer.path.with_name("gone.ring")) is None
