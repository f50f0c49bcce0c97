"""`emberward.watch()` in processes that nobody supervises: what is recorded, what is said, what is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from ports import reserve_port

from emberward.report import RunFolder, read_lines
from emberward.sources.ring import SUFFIX

RANKS = 2
LOOP = """
import os, sys, time
import emberward
assert "torch" not in sys.modules
watching = emberward.watch("runs/mine")
import torch, torch.distributed as dist
with watching:
    dist.init_process_group("gloo")
    for step in range(5):
        dist.all_reduce(torch.ones(4))
    while sys.argv[1] == "differ":
        is_seen = torch.tensor([int(os.path.exists("seen"))])
        dist.broadcast(is_seen, 0)
        if is_seen.item():
            break
        dist.all_reduce(torch.ones(4, dtype=torch.int32 if dist.get_rank() == 1 else torch.float32))
    print("looped", watching.folder, flush=True)
    if sys.argv[1] == "freeze":
        if dist.get_rank() == 1:
            while True:
                time.sleep(1000)
        dist.all_reduce(torch.ones(4))
    if sys.argv[1] == "die" and dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()
    dist.destroy_process_group()
"""


class Loop:
    """A loop of the user's own on two real ranks, started by hand."""

    def __init__(self, place, how: str) -> None:
        (place / "loop.py").write_text(LOOP)
        port = reserve_port()
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
        self.place = place
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "loop.py", how],
                cwd=place,
                env={**env, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(RANKS)
        ]

    @property
    def folder(self) -> RunFolder:
        """The one run of it."""
        (path,) = (self.place / "runs" / "mine").iterdir()
        return RunFolder(path=path)

    def findings(self) -> list[dict]:
        if not (self.place / "runs" / "mine").exists():
            return []
        return [
            line for path in (self.place / "runs" / "mine").iterdir() for line in read_lines(path / "findings.jsonl")
        ]

    def ends(self) -> list[dict]:
        return [line for line in read_lines(self.folder.attempts) if line["event"] == "end"]

    def ring_folders(self) -> set[Path]:
        """The folders in shared memory to which its ranks write."""
        maps = [Path(f"/proc/{each.pid}/maps").read_text().split() for each in self.ranks]
        return {Path(word).parent for words in maps for word in words if word.endswith(SUFFIX)}

    def left(self) -> list[str]:
        """Living processes that were started in its folder, or for its run."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd", "status"]):
            words, place = process.info["cmdline"] or [], process.info["cwd"] or ""
            is_its = Path(place) == self.place or any(str(self.place) in word for word in words)
            if is_its and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(" ".join(words))
        return found

    def end(self) -> list[tuple[int, str, str]]:
        said = [each.communicate(timeout=200) for each in self.ranks]
        return [(each.returncode, *both) for each, both in zip(self.ranks, said, strict=True)]


@pytest.fixture
def started(tmp_path):
    loops = []

    def start(how: str) -> Loop:
        loops.append(Loop(tmp_path, how))
        return loops[-1]

    yield start
    ranks = [each for loop in loops for each in loop.ranks if not each.stdout.closed]
    for each in ranks:
        each.kill()
    for each in ranks:
        each.communicate(timeout=60)  # the watcher holds the streams, until the last rank has ended


def test_a_loop_that_ends_well_leaves_its_rings_and_says_nothing(started):
    loop = started("well")
    (first, second) = loop.end()
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert (first[2], second[2]) == ("", "")
    assert [line["severity"] for line in loop.findings()] == []
    (end,) = loop.ends()
    assert end["outcome"] == "done"
    assert len(list(loop.folder.events.glob("attempt-0001/rank*.ring"))) == RANKS
    assert json.loads(loop.folder.command.read_text())["command"][-1] == "well"
    assert f"looped {loop.folder.path}" in first[1]
    assert "looped None" in second[1]


def test_a_rank_that_dies_is_named(started, wait_until):
    loop = started("die")
    (first, second) = loop.end()
    assert second[0] == -signal.SIGKILL
    assert first[0] != 0
    wait_until(lambda: loop.ends(), "the end of the watch")
    (end,) = loop.ends()
    assert (end["outcome"], end["code"]) == ("failed", "L102")
    assert any(line["code"] == "L102" and line["culprit_ranks"] == [1] for line in loop.findings())


def test_mismatched_calls_that_raise_no_error_are_named_while_the_loop_goes_on(started, wait_until):
    """A certificate reports them before the call; the watcher of a loop without a proof reports them after it."""
    loop = started("differ")
    wait_until(loop.findings, "a finding", 120.0)
    assert all(each.poll() is None for each in loop.ranks), "gloo adds floats and integers without an error"
    (loop.place / "seen").touch()
    assert [code for code, _, _ in loop.end()] == [0, 0]
    errors = [line for line in loop.findings() if line["severity"] == "error"]
    assert [(line["code"], line["cause"], line["waiting_ranks"]) for line in errors] == [("M102", "dtype", [0, 1])]
    assert errors[0]["site"].startswith("loop.py:")


def test_a_rank_that_stands_still_is_named_while_it_does(started, wait_until):
    loop = started("freeze")

    def is_named() -> bool:
        return any(line["code"] == "H101" and line["culprit_ranks"] == [1] for line in loop.findings())

    wait_until(is_named, "a finding that names rank 1", 120.0)
    assert any(line["site"] and "loop.py" in line["site"] for line in loop.findings())
    assert all(each.poll() is None for each in loop.ranks), "nothing is ended"
    folder, (rings,) = loop.folder, loop.ring_folders()
    for each in loop.ranks:
        each.kill()
    wait_until(lambda: not loop.left() and not rings.exists(), "the end of the watcher and of its rings", 120.0)
    assert [line["outcome"] for line in loop.ends()] == ["failed"], "the end is written first"
    assert len(list(folder.events.glob("attempt-0001/rank*.ring"))) == RANKS
