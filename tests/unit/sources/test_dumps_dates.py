"""When a dump proves that a job stood still: never by its file's date, which a copy moves on, but by a log."""

import os
import time
from pathlib import Path

import pytest
from unit.sources.dump_samples import T0_NS, dump, entry, write
from unit.sources.test_dumps_rules import WORLD, verdict

from emberward.findings import Cause, Severity

STACKS = "".join(
    f"""Process {100 + rank}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {100 + rank} ({"active" if rank == 2 else "idle"}): "MainThread"
    {"work (train.py:5)" if rank == 2 else "all_reduce (torch/distributed/distributed_c10d.py:3252)"}
    train (train.py:10)
    <module> (train.py:20)

"""
    for rank in range(4)
)
TIMEOUT_LOG = (
    "[rank0]:[E1126 01:00:00.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600028 milliseconds "
    "before timing out.\n"
)


def folder_of(where: Path, *, open_for_s: float, kept_s: float | None = None, log: str = "") -> Path:
    """Dumps of a job whose last call is so old when they are written; `kept_s`: when, as the dates of the files say."""
    shift_ns = time.time_ns() - int(open_for_s * 1e9) - (T0_NS + 5 * 100_000_000)
    dumps = {}
    for rank in range(4):
        last = 4 if rank == 2 else 5
        rows = [entry(k, k, done=k < 5) for k in range(1, last + 1)]
        rows = [{**row, "time_created_ns": row["time_created_ns"] + shift_ns} for row in rows]
        dumps[rank] = dump(rows, WORLD, status={0: (last, 4)})
    folder = write(where / "d", dumps)
    for path in folder.iterdir():
        if kept_s is not None:
            os.utime(path, (time.time() - open_for_s + kept_s,) * 2)
    (folder / "stacks.txt").write_text(STACKS)
    if log:
        (folder / "job.log").write_text(log)
    return folder


@pytest.mark.parametrize(
    ("files", "severity"),
    [
        # A copy that was made six minutes after a pause looks like this, and so does one of that copy with its date.
        ({"open_for_s": 400}, Severity.WARNING),
        ({"open_for_s": 400, "kept_s": 5}, Severity.WARNING),
        ({"open_for_s": 400, "kept_s": 300}, Severity.WARNING),
        ({"open_for_s": 605}, Severity.WARNING),
        ({"open_for_s": 90_000}, Severity.WARNING),
        ({"open_for_s": 400, "log": TIMEOUT_LOG}, Severity.ERROR),
    ],
)
def test_a_rank_at_work_is_accused_where_time_has_passed(
    tmp_path: Path, files: dict[str, float], severity: Severity
) -> None:
    finding = verdict(folder_of(tmp_path, **files))  # type: ignore[arg-type]
    assert (finding.culprit_ranks, finding.cause, finding.severity) == ((2,), Cause.CPU_LOOP, severity)


@pytest.mark.parametrize(("kept_s", "severity"), [(5, Severity.WARNING), (300, Severity.ERROR)])
def test_a_date_tells_that_a_pause_was_short_where_no_stack_tells_what_the_rank_does(
    tmp_path: Path, kept_s: float, severity: Severity
) -> None:
    folder = folder_of(tmp_path, open_for_s=400, kept_s=kept_s)
    (folder / "stacks.txt").unlink()
    finding = verdict(folder)
    assert (finding.culprit_ranks, finding.severity) == ((2,), severity)


def test_dumps_add_no_alarm_to_what_stacks_alone_call_a_warning(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, open_for_s=400)
    alone = verdict(folder / "stacks.txt")
    assert alone.severity is verdict(folder).severity is Severity.WARNING
    assert (alone.cause, alone.site) == (Cause.CPU_LOOP, verdict(folder).site)
