"""Stacks of other processes by py-spy, each within a time limit."""

import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from emberward.diagnose import ProcessStacks
from emberward.processes import ProcessTree
from emberward.sources.dumps import read_py_spy_json

SPY_TIMEOUT_S = 10.0
"""Longest time that one process's stack may take."""
MAX_AT_ONCE = 4
_OWN_FRAME = re.compile(r"\s*\d+: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpyResult:
    """One process's stacks, or why there are none."""

    pid: int
    stacks: ProcessStacks | None
    problem: str | None = None


def find_spy() -> str | None:
    """Where py-spy is: beside this interpreter, else on the path; None when it is nowhere."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


def spy(
    pid: int, *, tree: ProcessTree, spy_path: str | None, is_stopped: bool, timeout_s: float = SPY_TIMEOUT_S
) -> SpyResult:
    """The stacks of one process. Starts a child in `tree`; the process is held for some milliseconds.

    A stopped process cannot be held: it is read as it stands.
    """
    if spy_path is None:
        return SpyResult(pid=pid, stacks=None, problem="py-spy is not installed")
    command = [spy_path, "dump", "--json", "--pid", str(pid)]
    if is_stopped:
        command.append("--nonblocking")
    try:
        done = tree.run(command, environment=None, timeout_s=timeout_s)
    except OSError as problem:
        return SpyResult(pid=pid, stacks=None, problem=f"{type(problem).__name__}: {problem}"[:200])
    if done.code is None:
        return SpyResult(pid=pid, stacks=None, problem=f"py-spy did not end within {timeout_s:.0f} s")
    if done.code != 0:
        # Behind its own words py-spy prints where in itself it was.
        said = done.errors.decode(errors="replace").partition("Stack backtrace")[0].strip().splitlines()
        words = [line.strip() for line in said if not _OWN_FRAME.match(line)]
        return SpyResult(pid=pid, stacks=None, problem=" ".join(words[-2:])[:200] or f"exit code {done.code}")
    try:
        found = read_py_spy_json(json.loads(done.out), path=f"process {pid}").processes
    except ValueError as problem:
        return SpyResult(pid=pid, stacks=None, problem=f"its answer cannot be read: {problem}"[:200])
    own = next((process for process in found if process.pid in (pid, None)), None)
    return SpyResult(pid=pid, stacks=own, problem=None if own is not None else "no thread was shown")


def spy_all(pids: dict[int, bool], *, spy_path: str | None, timeout_s: float = SPY_TIMEOUT_S) -> dict[int, SpyResult]:
    """The stacks of several processes, a few at a time. `pids`: whether each is stopped. Blocks until all are read."""
    if not pids:
        return {}
    with ProcessTree() as tree, ThreadPoolExecutor(MAX_AT_ONCE) as pool:
        found = pool.map(
            lambda item: spy(item[0], tree=tree, spy_path=spy_path, is_stopped=item[1], timeout_s=timeout_s),
            pids.items(),
        )
        return {result.pid: result for result in found}
