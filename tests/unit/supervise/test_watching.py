"""What a supervisor holds: exit codes of processes that are not its children, rings, a watcher, lines that wait."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from emberward.events import CollectiveOp, Group
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.processes import ProcessTree, identify
from emberward.report import RunFolder
from emberward.sources.dumps import explain_paths
from emberward.sources.live import WatchReport, rank_in
from emberward.sources.ring import RingWriter, find_rings, identity_here, ring_name
from emberward.sources.ring._format import OP_OF_COLLECTIVE, CallFlag
from emberward.supervise import _exits
from emberward.supervise._exits import ExitWatch
from emberward.supervise._late_lines import LateLines
from emberward.supervise._members import Members, ranks_below
from emberward.supervise._node_agent import findings_of
from emberward.supervise._overseer import Overseer, Oversight
from emberward.supervise._rings import OWNER, RingBox, own_identity, pid_of, rank_of
from emberward.supervise._watching import SILENT_LIMIT_S, START_LIMIT_S, WatcherChild
from emberward.supervise.watcher import line_of

KEEPS_EXIT_CODES = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)
"""Kernels before that no longer tell of a process that its parent has reaped."""
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()" + sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.readline()
child.stdin.close()
child.wait()
print("reaped", flush=True)
sys.stdin.readline()
"""


def test_the_exit_code_of_a_process_that_is_reaped_while_it_is_asked_for(monkeypatch):
    """The kernel keeps it from then on, and no zombie has it any more."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(7)"])
    watch = ExitWatch(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    def is_reaped(pid):
        child.wait()

    monkeypatch.setattr(_exits, "_zombie_status", is_reaped)
    ended = watch.ended(now_unix=1.0)
    watch.close()
    assert ended is not None
    assert ended.exit_code == (7 if KEEPS_EXIT_CODES else None)


@pytest.mark.parametrize(
    ("how", "code"),
    [("", 0), ("; sys.exit(7)", 7), ("; import os; os.kill(os.getpid(), 9)", -9), ("; import os; os.abort()", -6)],
)
def test_the_exit_code_of_a_process_that_its_parent_has_reaped(how, code):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    watch = ExitWatch(int(parent.stdout.readline()))
    assert watch.ended(now_unix=1.0) is None
    parent.stdin.write("\n")
    parent.stdin.flush()
    assert parent.stdout.readline() == "reaped\n"
    ended = watch.ended(now_unix=2.0)
    parent.communicate("\n", timeout=60)
    watch.close()
    watch.close()
    assert ended is not None
    assert ended.exit_code in ({code} if KEEPS_EXIT_CODES else {code, None})
    assert ended.seen_unix == 2.0


def test_a_rank_that_ended_before_it_was_seen_is_known_until_its_parent_has_waited_for_it():
    rank = subprocess.Popen([sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)"])
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    members = Members()
    members.add({rank.pid: 1})
    assert [(each.rank, each.ended and each.ended.exit_code) for each in members.newly_ended(now_unix=0.0)] == [(1, -9)]
    rank.wait(60)
    late = Members()
    late.add({rank.pid: 1})
    assert late.by_pid == {}


def test_workers_of_a_rank_are_no_ranks(wait_until):
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env={**os.environ, "RANK": "3"})
    try:
        wait_until(lambda: psutil.Process(process.pid).children(), "the rank's worker")
        wait_until(lambda: ranks_below(process.pid) == {process.pid: 3}, "one rank, its worker being none")
    finally:
        process.communicate(b"\n", timeout=60)
    assert ranks_below(process.pid) == {}


@pytest.mark.parametrize(
    ("environment", "rank"),
    [({}, None), ({"RANK": "0"}, 0), ({"RANK": "x"}, None), ({"SLURM_PROCID": "4"}, 4), ({"PMI_RANK": "2"}, 2)],
)
def test_the_rank_that_a_launcher_gave(environment, rank):
    assert rank_in(environment) == rank


# -- rings -------------------------------------------------------------------------------------------------------------


def test_rings_are_copied_and_leave_no_folder_behind(tmp_path, tree):
    box = RingBox("a job", owner=own_identity(), tree=tree, kept=tmp_path / "kept")
    assert box.folder is not None
    environment = box.environment({"A": "b"})
    assert environment["EMBERWARD_RING"] == str(box.folder)
    writer = RingWriter(
        box.folder / ring_name(rank=3, pid=os.getpid()), identity_here(rank=3, world_size=4, local_rank=3)
    )
    writer.close()
    assert list(box.rings()) == [os.getpid()]
    box.copy(tmp_path / "events" / "attempt-0001")
    (copy,) = find_rings(tmp_path / "events" / "attempt-0001")
    assert (rank_of(copy), pid_of(copy)) == (3, os.getpid())
    box.remove()
    assert not box.folder.exists()
    assert box.problem is None


def test_a_folder_that_nobody_owns_any_more_is_taken_away_and_a_living_one_s_is_not(tmp_path, tree):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait(60.0)
    first = RingBox("a job", owner=own_identity(), tree=tree, kept=tmp_path / "kept")
    assert first.folder is not None
    abandoned = first.folder.parent / "abandoned-0"
    abandoned.mkdir()
    (abandoned / OWNER).write_text(json.dumps({"pid": dead.pid, "created": 1.0}))
    second = RingBox("a job", owner=own_identity(), tree=tree, kept=tmp_path / "kept")
    assert not abandoned.exists()
    assert first.folder.exists()
    first.remove()
    second.remove()


# -- the watcher -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree():
    with ProcessTree() as tree:
        yield tree


@pytest.fixture
def child(tree):
    return lambda program: WatcherChild([sys.executable, "-c", program], tree=tree, environment=os.environ, now_s=0.0)


def test_a_watcher_s_lines_are_read_without_waiting_and_garbage_is_left_out(child, wait_until):
    watcher = child(
        "import sys; print('nonsense'); print('[1]'); print('{\"findings\": [1, {}]}', flush=True); input()"
    )
    said = []
    wait_until(lambda: said.extend(watcher.poll(now_s=5.0)) or said, "a line")
    assert said == [{"findings": [1, {}]}]
    assert findings_of(said[0]["findings"]) == []
    assert not watcher.is_silent(now_s=5.0 + SILENT_LIMIT_S)
    assert watcher.is_silent(now_s=5.1 + SILENT_LIMIT_S)
    watcher.stop()
    assert identify(watcher.pid) is None


def test_a_watcher_that_never_comes_up_is_silent_and_a_deaf_one_is_killed(child):
    watcher = child("import time; time.sleep(600)")
    assert not watcher.is_silent(now_s=START_LIMIT_S)
    assert watcher.is_silent(now_s=START_LIMIT_S + 0.1)
    began_s = time.monotonic()
    watcher.stop()
    assert time.monotonic() - began_s < 30.0
    assert not psutil.pid_exists(watcher.pid)


def test_a_watcher_that_was_stopped_keeps_nobody(child):
    watcher = child("input()")
    os.kill(watcher.pid, signal.SIGSTOP)
    assert watcher.poll(now_s=1.0) == []
    watcher.tell({"exits": {1: -9}})
    watcher.stop()
    assert not psutil.pid_exists(watcher.pid)


def test_the_real_watcher_says_that_it_lives_and_ends_with_its_input(tmp_path, tree, wait_until):
    watcher = WatcherChild(
        [sys.executable, "-m", "emberward.supervise.watcher", str(tmp_path), str(tmp_path / "lag")],
        tree=tree,
        environment=os.environ,
        now_s=0.0,
    )
    said = []
    wait_until(lambda: said.extend(watcher.poll(now_s=1.0)) or said, "a line")
    assert said[0] == {"findings": [], "resolved": [], "done": False}
    watcher.tell({"conclude": True})
    wait_until(lambda: said.extend(watcher.poll(now_s=2.0)) or said[-1]["done"], "the last word")
    watcher.stop()


DIFFER = Finding(
    code="M101", severity=Severity.ERROR, kind=Kind.MISMATCH, cause=Cause.DIFFERENT_OP, certainty=Certainty.OBSERVED,
    waiting_ranks=(0, 1), message="rank 1 and rank 0 do not agree",
)  # fmt: skip
EXTRA = replace(DIFFER, code="M103", kind=Kind.MISSING, cause=Cause.EXTRA_COLLECTIVE, culprit_ranks=(1,))
ELSEWHERE = replace(EXTRA, culprit_ranks=(2,), waiting_ranks=(3,))


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ((), ["H128"]),
        ((EXTRA,), ["M103"]),
        ((replace(EXTRA, culprit_ranks=(2,), waiting_ranks=(3,)),), ["M103", "H128"]),
    ],
    ids=["gone", "a better verdict on these ranks", "a verdict on others"],
)
def test_the_job_goes_on_when_a_verdict_is_gone_and_not_when_another_takes_its_place(new, said):
    line = json.loads(line_of(WatchReport(findings=new, resolved=(DIFFER,), is_still=bool(new))))
    assert [each["code"] for each in line["findings"]] == said
    assert [each["code"] for each in line["resolved"]] == ["M101"]


@pytest.mark.parametrize("is_late", [True, False], ids=["no last word", "a last word"])
def test_the_rings_are_read_when_the_watcher_ends_without_its_last_word(
    tmp_path, monkeypatch, child, wait_until, is_late
):
    read = []

    class Rings:
        def __init__(self, folder):
            self.folder = folder

        def end(self, exits):
            read.append((self.folder, exits))
            return WatchReport(findings=(EXTRA,))

    monkeypatch.setattr("emberward.supervise._overseer.Watcher", Rings)
    word = "" if is_late else json.dumps({"findings": [DIFFER.to_json()], "done": True})
    overseer = Overseer(RunFolder(path=tmp_path), Oversight(), environment={})
    overseer.begin(1)
    assert overseer._box is not None
    folder = overseer._box.folder
    watcher = child(f"import sys; print('{{}}', flush=True); sys.stdin.readline(); print({word!r})")
    wait_until(lambda: watcher.poll(now_s=time.monotonic()), "a first line")
    overseer.tell_exits({7: -6})
    overseer._child = watcher
    found = overseer.conclude()
    assert (found, read) == (([EXTRA], [(folder, {7: -6})]) if is_late else ([DIFFER], []))
    overseer.close(state="done")


def test_a_run_says_before_it_ends_what_explain_finds_in_its_folder(tmp_path, monkeypatch):
    group, op = Group(ranks=(0, 1, 2), label="world"), OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE]
    folder = RunFolder(path=tmp_path)
    overseer = Overseer(folder, Oversight(), environment={})
    overseer.begin(1)
    assert overseer._box is not None
    for rank in range(3):
        path = overseer._box.folder / ring_name(rank=rank, pid=os.getpid() + rank)
        writer = RingWriter(path, identity_here(rank=rank, world_size=3, local_rank=rank))
        site, number = writer.site("/job/train.py", 43, "step"), writer.group(group)
        for dtype in (1, 1, 6 if rank == 2 else 1):
            writer.done(writer.call(op, number, 128, dtype, site, CallFlag.BLOCKING), number)
        writer.close()
    # gloo let the types meet: of the ranks' ends alone nobody would tell why one of them crashed.
    death = replace(DIFFER, code="L102", kind=Kind.CRASH, cause=Cause.SEGFAULT, culprit_ranks=(0,))
    first, second = overseer.explained((death,))
    assert (first.code, first.culprit_ranks, first.severity) == ("M102", (2,), Severity.ERROR)
    assert (second.code, second.severity) == ("L102", Severity.NOTICE)
    for finding in (first, second):
        overseer.report(finding)
    afterwards = explain_paths([tmp_path]).findings
    assert [(f.code, f.culprit_ranks, f.severity) for f in afterwards] == [
        ("M102", (2,), Severity.ERROR),
        ("L102", (0,), Severity.NOTICE),
    ]

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setattr("emberward.supervise._overseer.explain_paths", broken)
    assert overseer.explained((death,)) == (death,)
    assert "RuntimeError: a mistake" in folder.findings.read_text()
    overseer.close(state="done")


# -- a full disk -------------------------------------------------------------------------------------------------------


def test_lines_wait_for_room_and_keep_their_order(tmp_path):
    lines, path = LateLines(), tmp_path / "gone" / "lines.jsonl"
    assert not lines.append(path, {"n": 1})
    assert not lines.append(path, {"n": 2})
    path.parent.mkdir()
    assert lines.append(path, {"n": 3})
    assert [json.loads(line)["n"] for line in Path(path).read_text().splitlines()] == [1, 2, 3]
