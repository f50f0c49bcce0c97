"""A process of which py-spy could take no stack: stopped, it is the one that all others wait for."""

from pathlib import Path

import pytest

from emberward.findings import Cause, Finding, Severity
from emberward.sources.dumps import explain_paths

RANK = """Process {pid}: /usr/bin/python -u train.py
Python v3.11.7 (/usr/bin/python3.11)

"""
WAITS = """Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    main (train.py:10)
"""
LAUNCHER = """Process 1: /usr/bin/python /usr/bin/torchrun --nproc-per-node 3 train.py
Python v3.11.7 (/usr/bin/python3.11)

"""
STOPPED = """Error: Failed to get stack traces

Caused by:
    0: Failed to suspend process
    1: unexpected waitpid result PtraceEvent(Pid(103), SIGSTOP, 128) to 103

Stack backtrace:
   0: <E as anyhow::context::ext::StdError>::ext_context
   1: py_spy::python_spy::PythonSpy::get_stack_traces
"""
REFUSED = """Error: Permission Denied: Try running again with elevated permissions by going 'sudo env "PATH=$PATH" !!'
"""


def findings(folder: Path, *parts: str) -> tuple[Finding, ...]:
    waits = "".join((RANK + WAITS).format(pid=pid) for pid in (101, 102))
    (folder / "stacks.txt").write_text(waits + "".join(parts))
    return explain_paths([folder]).findings


@pytest.mark.parametrize("error", [STOPPED, ""])
def test_a_stopped_process_is_the_one_that_all_others_wait_for(error: str, tmp_path: Path) -> None:
    """Also where py-spy's error went elsewhere, and its first lines of the process alone are left."""
    (found,) = findings(tmp_path, RANK.format(pid=103), error)
    assert (found.cause, found.culprit_pids, found.severity) == (Cause.STOPPED, (103,), Severity.ERROR)
    assert found.message == "process 103 is stopped by a signal, while 2 of 3 processes wait for their peers"


@pytest.mark.parametrize("parts", [(RANK.format(pid=103), REFUSED), (LAUNCHER, STOPPED), (LAUNCHER,)])
def test_who_may_not_be_read_and_a_stopped_launcher_are_not_accused(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """Nor are py-spy's own words the death of a job."""
    (found,) = findings(tmp_path, *parts)
    assert (found.cause, found.culprit_pids, found.severity) == (Cause.UNKNOWN, (), Severity.WARNING)


def test_an_error_of_the_job_beside_the_stacks_is_still_its_death(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("ValueError: no such column\n")
    assert {found.cause for found in findings(tmp_path, RANK.format(pid=103), REFUSED)} >= {Cause.EXCEPTION}
