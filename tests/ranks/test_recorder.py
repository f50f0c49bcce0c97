"""The recorder, attached to programs by their environment alone: what it sees, and that nothing else changes."""

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ports import reserve_port

from emberward.events import Barrier, Collective, CollectiveOp, GroupCreate, Recv, ReduceOp, Send, Stage, State, Wait
from emberward.sources.attach import SITE_FOLDER, attach_environment
from emberward.sources.ring import MarkKind, find_rings, read_problems, read_ring

PROGRAMS = Path(__file__).parent / "recorded"
TIMEOUT_S = 120.0
BASE = {
    "PATH": os.environ["PATH"],
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
    "MASTER_ADDR": "127.0.0.1",
}


def line_of(program: str, text: str) -> int:
    lines = (PROGRAMS / program).read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class TwoRanks:
    """Two ranks of two_ranks.py, up to where rank 0 holds its interpreter and rank 1 waits for it."""

    def __init__(self, folder: Path) -> None:
        self.rings = folder / "rings"
        self.rings.mkdir()
        environment = attach_environment(
            {**BASE, "MASTER_PORT": str(reserve_port()), "WORLD_SIZE": "2"}, ring_folder=self.rings
        )
        self.ranks = [
            subprocess.Popen(
                [sys.executable, PROGRAMS / "two_ranks.py", folder],
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]

    def views(self):
        return {view.rank: view for view in map(read_ring, find_rings(self.rings))}

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.communicate(timeout=60.0)


@pytest.fixture(scope="module")
def two(tmp_path_factory, wait_until):
    two = TwoRanks(tmp_path_factory.mktemp("two"))

    def is_stuck() -> bool:
        assert [rank.poll() for rank in two.ranks] == [None, None], two.ranks[0].communicate()
        views = two.views()
        if len(views) < 2 or any(view.num_calls < 10 for view in views.values()):
            return False
        last = views[1].flight
        return (views[0].heartbeat_age_s or 0) > 1.0 and last is not None and "[[7]]" in str(pickle.loads(last.data))

    try:
        wait_until(is_stuck, "rank 0 to hold its interpreter and rank 1 to wait", timeout_s=TIMEOUT_S)
        yield two
    finally:
        two.close()


def test_every_call_is_there_with_its_arguments_and_its_line(two):
    view = two.views()[0]
    assert view.problems == ()
    assert view.is_complete
    assert (view.rank, view.world_size, view.local_rank, view.pid) == (0, 2, 0, two.ranks[0].pid)
    bodies = [event.body for event in view.events if not isinstance(event.body, Wait)]
    assert [type(body) for body in bodies[:1]] == [GroupCreate]
    assert [body.op for body in bodies if isinstance(body, Collective)] == [
        CollectiveOp.ALL_REDUCE,
        CollectiveOp.ALL_GATHER,
        CollectiveOp.ALL_REDUCE,
        CollectiveOp.ALL_REDUCE,
        CollectiveOp.BROADCAST,
        CollectiveOp.ALL_GATHER,
        CollectiveOp.ALL_GATHER,
    ]
    assert isinstance(bodies[-1], Barrier)
    reductions = [body for body in bodies if isinstance(body, Collective) and body.op is CollectiveOp.ALL_REDUCE]
    assert [(body.reduce_op, body.group.label) for body in reductions] == [
        (ReduceOp.SUM, "pair"),
        (ReduceOp.SUM, "pair"),
        (ReduceOp.MAX, "world"),
    ]
    assert [(body.dtype, body.numel) for body in reductions] == [("float32", 3)] * 3
    broadcast = next(body for body in bodies if isinstance(body, Collective) and body.op is CollectiveOp.BROADCAST)
    assert (broadcast.root, broadcast.dtype, broadcast.numel) == (1, "int64", 2)
    transfers = [body for body in bodies if isinstance(body, Send | Recv)]
    assert [(type(body), body.peer, body.tag, body.batch) for body in transfers] == [
        (Send, 1, 5, None),
        (Send, 1, 0, 0),
        (Recv, 1, 0, 0),
    ]
    assert {event.state for event in view.events} == {State.COMPLETED}
    sites = {event.site.line for event in view.events}
    for text in ("all_reduce(value, group=pair)", "funcol.all_reduce", "dist.send", "batch_isend", "dist.barrier"):
        assert line_of("two_ranks.py", text) in sites, text
    assert all(event.site.file == str(PROGRAMS / "two_ranks.py") for event in view.events)
    # An asynchronous call whose wait is not the very next act: the wait is an event of its own.
    waits = [event for event in view.events if isinstance(event.body, Wait)]
    assert line_of("two_ranks.py", "work.wait()") in {event.site.line for event in waits}


def test_steps_and_phases_are_found(two):
    view = two.views()[0]
    kinds = [mark.kind for mark in view.marks]
    assert view.step == 3
    for kind, count in {
        MarkKind.SETUP: 1,
        MarkKind.DATA: 4,
        MarkKind.DATA_END: 1,
        MarkKind.BUFFERS: 3,
        MarkKind.BACKWARD: 3,
        MarkKind.OPTIMIZER: 3,
        MarkKind.STEP: 3,
        MarkKind.EVAL: 1,
        MarkKind.SAVE: 1,
    }.items():
        assert kinds.count(kind) == count, kind
    assert all(mark.ended_ns is not None for mark in view.marks)
    stages = [(event.phase.step, event.phase.stage) for event in view.events]
    assert stages[0] == (None, None)
    assert stages[1] == (3, Stage.EVAL)
    assert stages[-1] == (3, None)


def test_what_torch_calls_below_python_is_counted_and_copied(two):
    view = two.views()[1]
    world = next(group for group in view.groups if group.label == "world")
    count = view.groups[world]
    # DDP's reducer: three steps of one bucket, and what its constructor exchanges.
    assert count.sequence is not None
    assert count.sequence >= count.issued + 3
    entries = pickle.loads(view.flight.data)["entries"]
    assert entries[-1]["input_sizes"] == [[7]]
    assert not entries[-1]["retired"]


def test_a_rank_that_holds_its_interpreter_and_one_that_waits_for_it(two):
    views = two.views()
    assert views[0].heartbeat_age_s > 1.0
    assert state_of(two.ranks[0].pid) == "R"
    assert views[1].heartbeat_age_s < views[0].heartbeat_age_s
    last = views[1].events[-1]
    assert (last.state, last.body.numel) == (State.ISSUED, 7)
    assert last.site.line == line_of("two_ranks.py", "torch.ones(7)")
    assert views[1].sequences[last.ref] == views[1].groups[last.body.group].issued


def test_stopped_killed_and_left_alone(two, wait_until):
    """Last of the module: it ends the ranks."""
    killed, waiter = two.ranks
    before = two.views()
    waiter.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(waiter.pid) == "T", "the stop")
    stopped = two.views()[1]
    assert [event.ref for event in stopped.events] == [event.ref for event in before[1].events]
    waiter.send_signal(signal.SIGCONT)
    killed.kill()
    out, _ = killed.communicate(timeout=60.0)
    assert (killed.returncode, out) == (-signal.SIGKILL, "rank 0 ready\n")
    assert [event.body for event in two.views()[0].events] == [event.body for event in before[0].events]
    out, error = waiter.communicate(timeout=TIMEOUT_S)
    assert (waiter.returncode, out) == (1, "rank 1 ready\n")
    assert "emberward" not in error.split("Traceback")[0]
    view = two.views()[1]
    ends = {mark.kind: mark for mark in view.marks[-2:]}
    assert set(ends) == {MarkKind.EXCEPTION, MarkKind.MAIN_EXITED}
    assert ends[MarkKind.EXCEPTION].site.line == line_of("two_ranks.py", "torch.ones(7)")
    assert view.events[-1].ref in view.failures
    assert view.events[-1].state is State.ISSUED


def run_one(folder: Path, *arguments: str, executable: str = sys.executable, path: tuple[Path, ...] = ()):
    rings = folder / "rings"
    rings.mkdir()
    environment = {**BASE, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [executable, str(PROGRAMS / "one_rank.py"), str(folder), *arguments]
    done = subprocess.run(
        command,
        env=attach_environment(environment, ring_folder=rings),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return done, rings


def test_forks_threads_compilation_and_exit_codes(tmp_path):
    done, rings = run_one(tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "compiled [0.0, 0.0]\nvalue [1.0, 1.0]\n"
    (view,) = map(read_ring, find_rings(rings))
    assert view.problems == ()
    assert view.rank == 0
    kinds = [mark.kind for mark in view.marks]
    assert MarkKind.COMPILE in kinds
    assert kinds[-1] is MarkKind.MAIN_EXITED
    died = next(mark for mark in view.marks if mark.kind is MarkKind.THREAD_DIED)
    assert died.name == "ValueError: lost thread"
    assert died.site.line == line_of("one_rank.py", "raise ValueError")
    # Two lives of the world in one process: counted on, and what was compiled is torch's to count.
    world = next(group for group in view.groups if group.label == "world")
    assert view.groups[world].issued == 2


def test_another_python_without_room_for_a_ring(tmp_path):
    """A Python that has torch and not us, with a start-up file of its own, on a full disk: the job runs as ever."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.stderr.write('own start-up\\n')\n")
    import torch

    python = getattr(sys, "_base_executable", sys.executable)
    path = (own, Path(torch.__file__).parents[1])
    done, rings = run_one(tmp_path, "16384", executable=python, path=path)
    assert done.returncode == 3, done.stderr
    assert done.stdout == "value [1.0, 1.0]\n"
    assert done.stderr.startswith("own start-up\n")
    assert find_rings(rings) == ()
    (problem,) = read_problems(rings)
    assert "no recorder in this process: OSError: " in problem


SHOW = "import sys; print([m for m in sys.modules if m.split('.')[0] in ('emberward', 'torch', 'typing')], sys.path[0])"


@pytest.mark.parametrize("start_up", [None, "MARK = 1\n", "raise SystemExit(7)\n"])
def test_a_program_without_torch_starts_as_ever(tmp_path, start_up):
    if start_up is not None:
        (tmp_path / "sitecustomize.py").write_text(start_up)
    environment = {**BASE, "PYTHONPATH": str(tmp_path)}
    plain = subprocess.run([sys.executable, "-c", SHOW], env=environment, capture_output=True, text=True)
    attached = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=attach_environment(environment, ring_folder=tmp_path),
        capture_output=True,
        text=True,
    )
    assert (attached.returncode, attached.stdout) == (plain.returncode, plain.stdout)
    assert str(SITE_FOLDER) not in attached.stdout
    assert read_problems(tmp_path) == ()
