"""What a person reads for verdicts that no snapshot holds: the exact message, and a look-alike without it."""

from pathlib import Path

from unit.sources.dump_samples import dump, entry, write

from emberward.findings import Finding, Severity
from emberward.sources.dumps import explain_paths

WORLD = {("0", "default_pg"): [0, 1, 2, 3]}


def steps(last: int, *, is_open: bool = True) -> list[dict[str, object]]:
    return [entry(k, k, done=not (is_open and k == last)) for k in range(1, last + 1)]


def finding_of(path: Path, code: str) -> Finding | None:
    return next((finding for finding in explain_paths([path]).findings if finding.code == code), None)


def test_h102_a_rank_that_does_not_end_what_its_peers_ended(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5, is_open=False), WORLD, status={0: (5, 5)}) for r in (0, 1, 2)}
    dumps[3] = dump(steps(5), WORLD, status={0: (5, 4)})
    finding = finding_of(write(tmp_path / "d", dumps), "H102")
    assert finding is not None
    assert finding.message == (
        "rank 3 does not end call 5 of default[0,1,2,3]: all_reduce of 8 Float at train.py:10; the others have"
    )
    assert finding.next == "test the device and host of rank 3; is its process stopped"


def test_h103_a_call_that_all_issued(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in range(4)}
    finding = finding_of(write(tmp_path / "d", dumps), "H103")
    assert finding is not None
    assert finding.message == (
        "call 5 of default[0,1,2,3]: all_reduce of 8 Float at train.py:10 "
        "was issued by all its members and ends on none"
    )
    assert finding_of(write(tmp_path / "e", dumps), "H102") is None


def test_h102_and_h103_stay_silent_where_a_rank_never_came(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in (0, 1, 3)}
    dumps[2] = dump(steps(4, is_open=False), WORLD, status={0: (4, 4)})
    folder = write(tmp_path / "d", dumps)
    assert [finding_of(folder, code) for code in ("H102", "H103")] == [None, None]


def test_l102_a_death_that_a_log_tells(tmp_path: Path) -> None:
    (tmp_path / "rank_2.log").write_text(
        'step 4\nTraceback (most recent call last):\n  File "/job/train.py", line 14, in step\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    finding = finding_of(tmp_path, "L102")
    assert finding is not None
    assert finding.message == ("rank 2 died: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert finding.next == "read the log before that line; the ranks that time out later are its victims"


def test_l102_a_log_that_only_speaks_of_memory_is_no_death(tmp_path: Path) -> None:
    (tmp_path / "rank_2.log").write_text("step 4: memory 2.00 GiB, no error\nstep 5\n")
    assert finding_of(tmp_path, "L102") is None


def test_h108_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", {0: dump(steps(3, is_open=False), WORLD)})
    (folder / "rank_7").write_bytes(b"")
    finding = finding_of(folder, "H108")
    assert finding is not None
    assert (finding.message, finding.severity) == ("rank_7: is empty", Severity.WARNING)


def test_h108_whole_files_raise_no_complaint(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", {r: dump(steps(3, is_open=False), WORLD) for r in range(4)})
    assert finding_of(folder, "H108") is None


WATCHDOG = (
    "[rank1]:[E ProcessGroupNCCL.cpp:1375] [PG ID 0 Rank 1] Heartbeat monitor timed out! Process will be terminated "
    "after dumping debug info. workMetaList_.size()=1\n"
)


def test_h112_the_watchdog_stood_still(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(WATCHDOG)
    finding = finding_of(tmp_path, "H112")
    assert finding is not None
    assert finding.message == (
        "torch's watchdog itself stood still on rank 1: the process holds the GIL or a device call does not return"
    )
    assert finding.next == "take a native stack of that process: py-spy dump --native --pid PID"


def test_h112_a_heartbeat_that_is_only_announced_is_none(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("[rank1]:[I ProcessGroupNCCL.cpp:1300] Heartbeat monitor started\n")
    assert finding_of(tmp_path, "H112") is None
