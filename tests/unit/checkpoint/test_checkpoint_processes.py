"""Saves that a process of its own writes: its file system fails, it dies, its rank dies; no save before is lost.

The twin of `test_checkpoint_faults.py` for saves beside the training. After each fault `latest` names a save that
verifies and loads bit-equal, the one before or the new one, and the next save passes: a resume loses one save at most.
"""

import errno
import fcntl
import gc
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from io import FileIO
from pathlib import Path

import pytest
import torch
from unit.checkpoint.background_ranks import Crew
from unit.checkpoint.checkpoint_child import require_parts, save_once
from unit.checkpoint.checkpoint_ranks import cut, random_bits, spread
from unit.checkpoint.checkpoint_storages import Fault
from unit.checkpoint.faulty_writer import PlanFile
from unit.checkpoint.test_checkpoint_faults import NUM_RANKS, TESTS, require_whole, tensors

from emberward.checkpoint import SAVE_WRITER, Keep, clean_leftovers, latest, read_manifest, verify
from emberward.checkpoint._memory import shared_memory
from emberward.checkpoint._pace import Idle
from emberward.checkpoint._storage import Disk, _DirectFile, write_all
from emberward.sources.live import find_job, read_process_facts

WHOLE = random_bits(torch.float32, (600, 512), 1)

STRIDE = 4
"""Of so many operations of a writer one is its last, or its rank's; tools/campaign_saves.py takes every one."""


class Root:
    """A root on which two ranks save beside, rank `culprit`'s writer by plan. The seed of a save is its step."""

    def __init__(self, folder: Path, culprit: int) -> None:
        self.path = folder / "checkpoints"
        self.plan = PlanFile(folder / "plan.json")
        self.crew = Crew(
            self.path,
            NUM_RANKS,
            keep=Keep(last=1),
            command_of=lambda rank: self.plan.command if rank == culprit else None,
        )
        self.step = 0

    def save(self):
        """How the next save ended on each rank."""
        self.step += 1
        shards = spread(tensors(self.step), NUM_RANKS, self.step, num_cuts=2)
        self.crew.begin(shards, step=self.step, meta={"seed": self.step})
        return self.crew.finish()

    def require_next(self) -> None:
        """The next save passes and leaves no trace of the one before."""
        self.plan.set(None)
        assert [each.error for each in self.save()] == [None, None]
        assert require_whole(self.path) == self.step
        assert sorted(p.name for p in self.path.iterdir()) == [".lock", "latest", f"step-{self.step:08d}"]


@pytest.mark.parametrize("culprit", [0, 1])
def test_no_failing_operation_of_a_writer_loses_the_save_before(tmp_path, culprit):
    root = Root(tmp_path, culprit)
    root.require_next()
    for fault, for_ever in ((Fault.FULL, False), (Fault.TORN, True)):
        outcomes = Counter()
        for at in itertools.count(1):
            root.plan.set(fault, at, for_ever=for_ever)
            codes = [None if each.error is None else each.error.code for each in root.save()]
            if not root.plan.was_hit:
                break
            found = require_whole(root.path)
            assert codes in ([None, None], ["K103", "K103"])
            assert found == root.step or (found == root.step - 1 and codes[0] is not None)
            outcomes[codes[0], found == root.step] += 1
            root.require_next()
        assert codes == [None, None] and at > (15 if culprit == 0 else 4)
        assert outcomes["K103", False] > 3, outcomes
    root.crew.close()


@pytest.mark.parametrize("culprit", [0, 1])
def test_no_sigkill_of_a_writer_loses_the_save_before_and_the_next_save_has_another(tmp_path, culprit):
    root = Root(tmp_path, culprit)
    root.require_next()
    outcomes, pids = Counter(), set()
    for at in itertools.count(2, STRIDE):
        pids.add(root.crew.saves[culprit].writer_pid)
        root.plan.set(Fault.KILL_WITHIN, at)
        written = root.save()
        if not root.plan.was_hit:
            break
        found = require_whole(root.path)
        own, other = written[culprit], written[1 - culprit]
        if own.error is None:
            assert found == root.step and other.error is None
            assert [notice.code for notice in own.saved.notices] == ["K108"]
        else:
            assert (own.error.code, other.error.code) == ("K108", "K103") and own.error.ranks == (culprit,)
            assert found in (root.step, root.step - 1)
        outcomes[found == root.step] += 1
        root.require_next()
    assert [each.error for each in written] == [None, None], "look-alike: nobody was killed"
    assert outcomes[False] >= (3 if culprit == 0 else 1) and len(pids) == 1 + sum(outcomes.values())
    root.crew.close()


def test_message_of_a_writer_that_was_killed(tmp_path):
    root = Root(tmp_path, 1)
    root.require_next()
    pid = root.crew.saves[1].writer_pid
    root.plan.set(Fault.KILL_BEFORE, 1)
    assert str(root.save()[1].error) == (
        "K108 the process that writes the saves of rank 1 died\n"
        f"  where     process {pid}, save of step 2\n"
        "  expected  a process that lives as long as its rank\n"
        "  found     signal SIGKILL\n"
        "  next      if nobody killed it, look for the out-of-memory killer: dmesg | grep -i killed"
    )
    root.require_next()
    pid = root.crew.saves[1].writer_pid
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(pid, number)
    root.require_next()  # look-alike: what a launcher or a terminal sends to all is the rank's business
    assert root.crew.saves[1].writer_pid == pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    root.plan.set(None)
    (notice,) = root.save()[1].saved.notices  # no save was under way: none is lost
    assert (notice.code, notice.severity, notice.culprit_ranks) == ("K108", "warning", (1,))
    assert notice.message == (
        "the process that writes the saves of rank 1 died between two saves; another one was started"
    )
    pid = root.crew.saves[1].writer_pid
    root.crew.close()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("limit_bytes", [1, 5_000])
def test_the_kernel_refuses_a_writer_to_write_on(tmp_path, limit_bytes):
    """A real error of a real file system, past the page cache: files may not grow beyond the limit."""
    root = Root(tmp_path, 1)
    root.require_next()
    wide = spread({"w": WHOLE}, NUM_RANKS, 1, num_cuts=2)
    root.plan.set("error", 0, limit_bytes=limit_bytes)
    root.step += 1
    root.crew.begin(wide, step=root.step)
    written = root.crew.finish()
    assert [(each.error.code, each.error.ranks) for each in written] == [("K103", ()), ("K103", (1,))]
    assert written[1].error.cause == "disk_full" and written[1].error.where.endswith("rank-00001.safetensors")
    assert require_whole(root.path) == root.step - 1
    root.require_next()
    root.crew.close()


def test_no_sigkill_of_a_rank_loses_the_save_before_and_its_writer_goes_with_it(tmp_path):
    save_once(tmp_path / "before", 10, 1)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "unit.checkpoint.beside_rank", str(tmp_path), str(STRIDE)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    statuses = json.loads(done.stdout)
    assert len(statuses) > 3 and {os.waitstatus_to_exitcode(status) for status in statuses} <= {0, -signal.SIGKILL}
    outcomes = Counter()
    for root in tmp_path.glob("[0-9]*"):
        outcomes[require_parts(root)] += 1
        clean_leftovers(root)
        save_once(root, 30, 3)
        assert require_parts(root) == 3
        assert sorted(p.name for p in root.iterdir()) == [".lock", "latest", "step-00000030"]
    assert outcomes[1] >= 2 and outcomes[2] >= 1, outcomes


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("/no such program",), "[Errno 2] No such file or directory: '/no such program'"),
        ((sys.executable, "-S", "-c", "raise SystemExit(3)"), "it ended with exit code 3 before its first word"),
    ],
    ids=["missing", "broken"],
)
def test_a_process_that_cannot_be_started_is_told_and_a_thread_writes(tmp_path, command, why):
    crew = Crew(tmp_path, NUM_RANKS, command_of=lambda rank: command if rank == 1 else None)
    shards = [[cut("w", WHOLE, ((0, 300), (0, 512)))], [cut("w", WHOLE, ((300, 600), (0, 512)))]]
    crew.begin(shards, step=10)
    first, second = crew.finish()
    assert first.error is second.error is None and verify(latest(tmp_path)) == ()
    assert first.saved.notices == (), "look-alike: a process that starts is no news"
    (finding,) = second.saved.notices
    assert (finding.code, finding.severity, finding.culprit_ranks) == ("K109", "notice", (1,))
    assert finding.message == f"rank 1 could not start the process that writes its saves, a thread does: {why}"
    assert finding.next == (
        "nothing is lost but processor time of the training; look at ulimit -u and at the memory of the host"
    )
    crew.begin(shards, step=20)
    assert [each.saved.notices for each in crew.finish()] == [(), ()], "it is told once"
    crew.close()


def test_a_copy_for_which_there_is_no_memory_is_no_save_and_the_next_one_passes(tmp_path):
    crew = Crew(tmp_path, 1)
    shards = [[cut("w", WHOLE, ((0, 600), (0, 512)))]]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))  # the memory is a file to the kernel
    try:
        crew.begin(shards, step=10)
        (written,) = crew.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(written.error) == (
        "K117 rank 0 has no host memory for a copy of its state\n"
        "  where     save of step 10\n"
        "  expected  1228800 bytes\n"
        "  found     File too large\n"
        "  next      save.background=false, which needs no copy, or free memory on the host of that rank"
    )
    crew.begin(shards, step=20)
    assert crew.finish()[0].error is None, "look-alike: with memory for it the same copy is made"
    assert verify(latest(tmp_path)) == ()
    crew.close()


def test_the_memory_of_saves_that_nobody_holds_any_more_is_given_back():
    def held():
        return [link for link in Path("/proc/self/fd").iterdir() if "memfd:emberward-save" in os.path.realpath(link)]

    gc.collect()
    before = len(held())
    memory = shared_memory()
    assert memory.take(1 << 20)[:1] == b"\0" and len(held()) == before + 1
    del memory
    gc.collect()
    assert len(held()) == before


def test_a_writer_imports_nothing_for_what_a_manifest_says(tmp_path):
    """``torch.__version__`` is a str of a class of torch: unpickled as such it would import torch in each writer."""
    crew = Crew(tmp_path / "checkpoints", NUM_RANKS)
    assert type(torch.__version__) is not str
    meta = {"torch": torch.__version__, "axes": (1, 2)}
    crew.begin(spread(tensors(1), NUM_RANKS, 1, num_cuts=2), step=1, meta=meta)
    assert [each.error for each in crew.finish()] == [None] * NUM_RANKS
    maps = [Path(f"/proc/{saves.writer_pid}/maps").read_text() for saves in crew.saves]
    assert not any("libtorch" in each for each in maps)
    assert "libtorch" in Path("/proc/self/maps").read_text()
    written = read_manifest(latest(tmp_path / "checkpoints")).meta
    assert (written["torch"], written["axes"]) == (str(torch.__version__), [1, 2])
    crew.close()


def test_a_writer_is_taken_for_no_rank(tmp_path):
    root = Root(tmp_path, 1)
    root.require_next()
    pids = {saves.writer_pid for saves in root.crew.saves}
    assert len(pids) == 2 and None not in pids
    found = find_job([os.getpid()])
    assert pids.isdisjoint(rank.pid for rank in found.ranks)
    assert all(SAVE_WRITER in read_process_facts(pid).command for pid in pids)
    root.crew.close()


@pytest.mark.parametrize("num_bytes", [1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 4097, 9 << 20])
def test_what_goes_past_the_page_cache_arrives(tmp_path, num_bytes):
    data = random_bits(torch.uint8, (num_bytes,), num_bytes).numpy().data
    file = Disk(is_direct=True).create(tmp_path / "rank-00000.safetensors")
    for begin in range(0, num_bytes, 1_000_003):
        write_all(file, data[begin : begin + 1_000_003])
    file.fsync()
    file.close()
    assert (tmp_path / "rank-00000.safetensors").read_bytes() == bytes(data)
    with pytest.raises(FileExistsError):
        Disk(is_direct=True).create(tmp_path / "rank-00000.safetensors")


class Grudging(FileIO):
    """A file of a file system that takes writes past the page cache in pieces, or not at all."""

    def __init__(self, path, taken):
        super().__init__(path, "x", opener=lambda path, flags: os.open(path, flags | os.O_DIRECT, 0o666))
        self.taken, self.refused = taken, 0

    def write(self, data):
        if fcntl.fcntl(self.fileno(), fcntl.F_GETFL) & os.O_DIRECT:
            self.refused += 1
            if self.taken is None:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return super().write(data[: self.taken])
        return super().write(data)


@pytest.mark.parametrize("taken", [None, 4096, 512])
def test_a_file_system_that_will_not_write_past_the_page_cache_gets_the_bytes_otherwise(tmp_path, taken):
    path = tmp_path / "file"
    data = random_bits(torch.uint8, (40_000,), 1).numpy().data
    below = Grudging(path, taken)
    file = _DirectFile(below, path)
    write_all(file, data)
    file.fsync()
    file.close()
    assert path.read_bytes() == bytes(data) and below.refused == {None: 1, 512: 1, 4096: 9}[taken]


def test_work_is_left_to_idle_processors_until_somebody_waits_or_it_takes_too_long():
    def policy() -> int:
        return os.sched_getscheduler(0)

    pace = Idle()
    assert pace.do(policy) == os.SCHED_OTHER, "nobody has said how long idle processors may take"
    pace.begin(patience_s=600.0)
    assert pace.do(policy) == os.SCHED_IDLE
    pace.hurry()
    assert pace.do(policy) == os.SCHED_OTHER
    pace.begin(patience_s=600.0)
    assert pace.do(policy) == os.SCHED_IDLE, "each save begins anew"
    pace.begin(patience_s=0.0)
    assert pace.do(policy) == os.SCHED_OTHER
    with pytest.raises(ZeroDivisionError):
        pace.do(lambda: 1 // 0)
