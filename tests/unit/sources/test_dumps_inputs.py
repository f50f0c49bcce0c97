"""What people really give to explain: archives, pipes, logs of many ranks in one, leftovers of another run, junk."""

import gzip
import io
import json
import os
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from unit.sources.dump_samples import DATA, dump, entry, write

from emberward.findings import Finding, Severity, exit_code_of
from emberward.sources.dumps import explain_paths, load_plain
from emberward.sources.dumps._files import MAX_PLAIN_TEXT_BYTES, read_content

GLOO = {rank: (DATA / "flight_recorder_gloo" / f"rank_{rank}").read_bytes() for rank in range(4)}
WORLD = {("0", "default_pg"): [0, 1, 2, 3]}
HOUR_NS = 3600 * 10**9
TRACEBACK = 'Traceback (most recent call last):\n  File "/job/data.py", line 77, in load\nValueError: bad row\n'


def verdict(*paths: Path) -> Finding:
    return explain_paths(list(paths)).explanations[0].verdict


def codes(*paths: Path) -> list[str]:
    return [finding.code for finding in explain_paths(list(paths)).findings]


def job(calls: int, bad: int, *, later_ns: int = 0) -> dict[int, dict[str, object]]:
    """Dumps of four ranks, of which `bad` never made the last call; the job began `later_ns` later than others."""
    out = {}
    for rank in range(4):
        last = calls if rank != bad else calls - 1
        rows = [entry(k, k, done=k < calls) for k in range(1, last + 1)]
        for row in rows:
            row["time_created_ns"] += later_ns
            row["thread_id"] = str(rank + later_ns)
        out[rank] = dump(rows, WORLD, status={0: (last, calls - 1)})
    return out


@pytest.mark.parametrize(
    "pattern",
    ["nccl_trace_rank_{}", "fr.{}", "dump-{}.pkl", "rank{}/dump.pickle", "node1/rank_{}.pkl", "{}", "h7_rank{:02d}"],
)
def test_a_dump_is_known_by_any_usual_name(pattern: str, tmp_path: Path) -> None:
    for rank, data in GLOO.items():
        path = tmp_path / pattern.format(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    assert verdict(tmp_path).culprit_ranks == (2,)


def test_pickle_and_json_of_each_rank_count_once(tmp_path: Path) -> None:
    for rank, data in GLOO.items():
        (tmp_path / f"rank_{rank}").write_bytes(data)
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(load_plain(data)))
    assert explain_paths([tmp_path]).explanations[0].read == ("4 flight-recorder dumps",)


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "ticket.tar.gz", "w:gz") as archive:
        archive.add(DATA / "flight_recorder_gloo", "dumps")
    with zipfile.ZipFile(tmp_path / "ticket.zip", "w") as packed:
        for rank, data in GLOO.items():
            packed.writestr(f"../../x/rank_{rank}", data)
    (tmp_path / "each").mkdir()
    for rank, data in GLOO.items():
        (tmp_path / "each" / f"rank_{rank}.gz").write_bytes(gzip.compress(data))
    for path in ("ticket.tar.gz", "ticket.zip", "each"):
        assert verdict(tmp_path / path).culprit_ranks == (2,), path
    assert sorted(p.name for p in tmp_path.iterdir()) == ["each", "ticket.tar.gz", "ticket.zip"]


def test_a_damaged_archive_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    data = gzip.compress(b"".join(GLOO.values()))
    for name, raw in (("rank_0.gz", data[:900]), ("a.zip", b"PK\x03\x04junk"), ("b.gz", b"\x1f\x8bjunk")):
        (tmp_path / name).write_bytes(raw)
        assert "H108" in codes(tmp_path / name)


def test_an_archive_with_links_and_devices_gives_none_of_them(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, kind in (("rank_0", tarfile.SYMTYPE), ("rank_1", tarfile.CHRTYPE)):
            item = tarfile.TarInfo(name)
            item.type, item.linkname = kind, "/etc/passwd"
            archive.addfile(item)
    assert codes(tmp_path / "x.tar") == ["H107"]


def test_a_rank_s_log_that_tells_nothing_is_no_damage_and_a_dump_that_tells_nothing_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "job", job(5, 2))
    before = codes(folder)
    (folder / "rank00000.log").write_text("[W1125 socket.cpp:207] the hostname cannot be retrieved\n")
    assert codes(folder) == before and "H108" not in before
    (folder / "dump_rank7").write_text("[W1125 socket.cpp:207] the hostname cannot be retrieved\n")
    assert "H108" in codes(folder)


def test_standard_input_is_read_like_a_file() -> None:
    data = (DATA / "stacks" / "bloom_two_nodes.txt").read_bytes()
    for piped in (data, gzip.compress(data)):
        result = explain_paths([], piped=io.BytesIO(piped))
        assert result.explanations[0].verdict.culprit_pids == (688514,)
    assert [f.code for f in explain_paths([], piped=io.BytesIO(b"")).findings] == ["H107", "H108"]


def test_a_named_pipe_is_read_to_its_end_and_a_device_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "rank_2.log"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(TRACEBACK,))
    writer.start()
    found = verdict(pipe)
    writer.join(60)
    assert (found.code, found.culprit_ranks, found.site) == ("L102", (2,), "data.py:77")
    assert codes(Path("/dev/zero")) == ["H107", "H108"]


def test_a_dump_without_a_rank_says_how_to_name_it() -> None:
    findings = explain_paths([], piped=io.BytesIO(GLOO[1])).findings
    assert findings[1].message == "standard input: is a flight-recorder dump of nobody knows which rank"


def test_links_that_lead_round_and_to_nowhere_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "a").symlink_to(tmp_path / "a")
    (tmp_path / "rank_9").symlink_to("/nonexistent")
    for rank, data in GLOO.items():
        (tmp_path / f"rank_{rank}").write_bytes(data)
    assert codes(tmp_path) == ["H101"]


def test_a_long_log_is_sieved_and_keeps_its_line_numbers(tmp_path: Path) -> None:
    line = "step 12345 loss 2.345 tokens per second 123456 gradient norm 0.25\n"
    count = MAX_PLAIN_TEXT_BYTES // len(line) + 1000
    path = tmp_path / "rank_3.log"
    path.write_text(line * count + TRACEBACK + line * 1000)
    assert len(read_content(path).data) < 1000
    found = verdict(path)
    assert (found.culprit_ranks, found.site) == ((3,), "data.py:77")
    assert found.evidence[0] == f"{path}:{count + 3} says so"


def test_a_long_log_without_trouble_is_none(tmp_path: Path) -> None:
    (tmp_path / "rank_3.log").write_text("step 12345 loss 2.345\n" * (MAX_PLAIN_TEXT_BYTES // 20))
    assert exit_code_of(explain_paths([tmp_path]).findings) == 0


FAULT = """{mark}Thread 0x00007f0000001{rank}00 (most recent call first):
{mark}  File "/usr/lib/python3.11/threading.py", line 995 in _bootstrap

{mark}Current thread 0x00007f0000002{rank}00 (most recent call first):
{mark}  File "{file}", line 320 in wait
{mark}  File "/job/data.py", line 9 in load
{mark}  File "/job/train.py", line 60 in <module>
"""
LOCK = "/usr/lib/python3.11/threading.py"
CALL = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def interleaved(mark: str) -> str:
    """Four ranks' stacks, line by line in turn, each line behind its mark."""
    blocks = [
        FAULT.format(mark=mark.format(rank), rank=rank, file=LOCK if rank == 2 else CALL).replace("\n\n", "\n")
        for rank in range(4)
    ]
    rows = zip(*[block.replace("in wait", "in all_reduce").splitlines() for block in blocks], strict=True)
    return "\n".join(line for row in rows for line in row) + "\n"


@pytest.mark.parametrize(
    "mark", ["{}: ", "[rank{}]: ", "[default{}]:", "[1,{}]<stdout>:", "2026-11-21T10:00:00Z [rank{}]: "]
)
def test_stacks_of_many_ranks_in_one_log_are_taken_apart(mark: str, tmp_path: Path) -> None:
    (tmp_path / "slurm-77.out").write_text(interleaved(mark))
    found = verdict(tmp_path / "slurm-77.out")
    assert (found.code, found.culprit_ranks, found.site) == ("H106", (2,), "data.py:9")


def test_faulthandler_of_several_processes_after_one_another_are_several_processes(tmp_path: Path) -> None:
    blocks = [FAULT.format(mark="", rank=r, file=LOCK if r == 2 else CALL) for r in range(4)]
    (tmp_path / "all.txt").write_text("\n".join(blocks).replace("in wait", "in all_reduce"))
    result = explain_paths([tmp_path])
    assert (result.explanations[0].num_ranks, result.findings[0].code) == (4, "H106")


def test_the_label_of_a_task_that_is_no_rank_accuses_nobody(tmp_path: Path) -> None:
    """``srun -l torchrun``: the label is the node; the rank stands in the line."""
    lines = "".join(f"{k % 2}: [rank{4 * (k % 2)}]: loss 1\n" for k in range(40))
    traceback = "".join(f"1: [rank6]: {line}\n" for line in TRACEBACK.splitlines())
    (tmp_path / "slurm-1.out").write_text(lines + traceback)
    assert verdict(tmp_path).culprit_ranks == (6,)
    (tmp_path / "slurm-1.out").write_text(lines + traceback.replace("[rank6]: ", ""))
    assert verdict(tmp_path).culprit_ranks == ()


def test_tracebacks_that_are_mixed_line_by_line_keep_their_own_lines(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(
        "[rank1]: Traceback (most recent call last):\n[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/job/data.py", line 77, in load\n[rank1]:   File "/job/train.py", line 12, in step\n'
        "[rank3]: ValueError: bad\n[rank1]: RuntimeError: Connection closed by peer [127.0.0.1]:2\n"
    )
    found = verdict(tmp_path / "job.log")
    assert (found.culprit_ranks, found.site) == ((3,), "data.py:77")


def test_torchruns_folders_of_logs_tell_the_rank_and_the_last_attempt_counts(tmp_path: Path) -> None:
    for attempt, bad in ((0, 1), (1, 2)):
        for rank in range(3):
            folder = tmp_path / "none_x1" / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stderr.log").write_text(TRACEBACK if rank == bad else "")
    found = verdict(tmp_path)
    assert (found.code, found.culprit_ranks, found.site) == ("L102", (2,), "data.py:77")


def spy_text(rank: int) -> str:
    """py-spy's text with ``--locals`` of a rank that waits for a lock, when it is rank 2, and for its peers else."""
    inner = "wait (threading.py:320)" if rank == 2 else "all_reduce (torch/distributed/distributed_c10d.py:3252)"
    return (
        f'Process {100 + rank}: python t.py\nPython v3.11.7 (/x)\n\nThread {100 + rank} (idle): "MainThread"\n'
        f"    {inner}\n        Arguments:\n            self: <Event (x.py:3)>\n            y: torch.Size (3)\n"
        f"    step (train.py:{40 + (rank == 2)})\n        Locals:\n            z: call (a.py:9)\n"
        "    <module> (train.py:60)\n"
    )


def test_variables_that_py_spy_adds_are_no_frames(tmp_path: Path) -> None:
    (tmp_path / "stacks.txt").write_text("\n".join(map(spy_text, range(4))))
    found = verdict(tmp_path)
    assert (found.culprit_pids, found.site) == ((102,), "train.py:41")
    assert "<module> train.py:60" in found.evidence[0]


def test_a_process_number_in_a_name_is_no_rank(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"pyspy_{100 + rank}.txt").write_text(spy_text(rank))
    found = verdict(tmp_path)
    assert (found.culprit_ranks, found.culprit_pids) == ((), (102,))


def test_dumps_and_stacks_in_two_folders_are_one_incident(tmp_path: Path) -> None:
    write(tmp_path / "flights", job(30, 2))
    (tmp_path / "stacks").mkdir()
    for rank in range(4):
        (tmp_path / "stacks" / f"rank_{rank}.txt").write_text(spy_text(rank))
    result = explain_paths([tmp_path / "flights", tmp_path / "stacks"])
    assert len(result.explanations) == 1
    assert (result.findings[0].culprit_ranks, result.findings[0].site) == ((2,), "train.py:41")


def test_h160_a_dump_of_an_earlier_run_is_set_aside(tmp_path: Path) -> None:
    """Rank 3 left no dump this time; its old one lies there still, and must accuse nobody."""
    folder = write(tmp_path / "d", {rank: data for rank, data in job(30, 2, later_ns=HOUR_NS).items() if rank != 3})
    write(folder, {3: job(50, 1)[3]})
    findings = explain_paths([folder]).findings
    assert findings[0].culprit_ranks == (2,)
    (found,) = [finding for finding in findings if finding.code == "H160"]
    assert found.message == (
        "rank_3: the calls of rank 3 in it are of another run; the rank counts as one without a dump"
    )
    assert found.severity is Severity.WARNING


def test_h160_two_attempts_in_one_folder_judge_the_newer(tmp_path: Path) -> None:
    write(tmp_path / "a0", job(50, 1))
    write(tmp_path / "a1", job(30, 2, later_ns=HOUR_NS))
    findings = explain_paths([tmp_path]).findings
    assert findings[0].culprit_ranks == (2,)
    assert [finding.severity for finding in findings if finding.code == "H160"] == [Severity.NOTICE] * 4


def test_stacks_of_an_earlier_process_of_a_rank_are_left_out(tmp_path: Path) -> None:
    for attempt, (bad, pid) in enumerate(((1, 500), (2, 700))):
        folder = tmp_path / f"try{attempt}"
        folder.mkdir()
        for rank in range(4):
            text = spy_text(2 if rank == bad else 0).replace("100", str(pid + rank)).replace("102", str(pid + rank))
            (folder / f"rank_{rank}.txt").write_text(text)
            os.utime(folder / f"rank_{rank}.txt", (attempt * 600, attempt * 600))
    (explained,) = explain_paths([tmp_path]).explanations
    assert (explained.verdict.culprit_ranks, explained.num_ranks) == ((2,), 4)
    assert "rank 2 has stacks of two processes; the newer, rank_2.txt, is judged" in explained.verdict.evidence


def test_two_archives_are_two_incidents_that_are_compared(tmp_path: Path) -> None:
    for name, bad, later in (("monday", 1, 0), ("thursday", 2, HOUR_NS)):
        folder = write(tmp_path / name, job(30, bad, later_ns=later))
        with tarfile.open(tmp_path / f"{name}.tgz", "w:gz") as archive:
            archive.add(folder, "dumps")
    result = explain_paths([tmp_path / "monday.tgz", tmp_path / "thursday.tgz"])
    assert [explained.verdict.culprit_ranks for explained in result.explanations] == [(1,), (2,)]
    assert result.comparisons[0].message.endswith(
        "the same call was not reached, by other ranks; without their stacks the line is not known"
    )
    assert "operation all_reduce of 8 Float and all_reduce of 8 Float" in result.comparisons[0].evidence


@pytest.mark.parametrize("away", [2, 3])
def test_h160_a_wrong_clock_is_not_another_run(away: int, tmp_path: Path) -> None:
    dumps = job(40, 2)
    for row in dumps[away]["entries"]:  # type: ignore[attr-defined]
        row["time_created_ns"] -= 2 * HOUR_NS
    findings = explain_paths([write(tmp_path / "d", dumps)]).findings
    assert [finding.code for finding in findings] == ["H101"]
    assert findings[0].culprit_ranks == (2,)
    assert f"the clock of rank {away} is 7200 s behind" in findings[0].evidence


def test_a_lost_dump_is_not_forgotten_where_gloo_tells_no_members(tmp_path: Path) -> None:
    for rank, data in GLOO.items():
        (tmp_path / f"rank_{rank}").write_bytes(b"" if rank == 3 else data)
    messages = [finding.message for finding in explain_paths([tmp_path]).findings]
    assert "cannot tell: ranks 0, 1 wait for rank 3, and the dump of rank 3 is missing" in messages


def test_one_dump_of_a_rank_that_waits_for_nobody_is_no_all_clear(tmp_path: Path) -> None:
    finding = verdict(write(tmp_path / "d", {2: job(30, 2)[2]}))
    assert finding.code == "H107"
    assert finding.message == ("cannot tell: no call is open on rank 2, and the dumps of ranks 0, 1, 3 are missing")


def test_dumps_of_a_part_of_the_ranks_name_who_is_missing_once(tmp_path: Path) -> None:
    findings = explain_paths([write(tmp_path / "d", {0: job(30, 2)[0]})]).findings
    assert [finding.message for finding in findings] == [
        "cannot tell: rank 0 waits for ranks 1, 2, 3, and the dumps of ranks 1, 2, 3 are missing"
    ]


def test_ranks_of_which_most_wait_in_nothing_are_not_all_accused(tmp_path: Path) -> None:
    """One waits and three did not come: either side may be the odd one, and dumps do not tell what the three do."""
    dumps = job(30, 2)
    lone = {0: dumps[0], **{rank: dumps[2] for rank in (1, 2, 3)}}
    finding = verdict(write(tmp_path / "d", lone))
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("H107", (), (0,))
    assert verdict(write(tmp_path / "e", {0: dumps[0], 2: dumps[2]})).culprit_ranks == (), "two of four dumps"


def test_a_rooted_call_that_some_ended_names_nobody(tmp_path: Path) -> None:
    dumps = {}
    for rank in range(4):
        rows = [entry(k, k, op="broadcast", done=k < 5 or rank in (1, 3)) for k in range(1, 6)]
        dumps[rank] = dump(rows, WORLD, status={0: (5, 5 if rank in (1, 3) else 4)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.culprit_ranks) == ("H107", ())
    assert "whether all named the same root" in finding.message


def test_sends_and_receives_that_gloo_counts_are_no_calls_that_ended(tmp_path: Path) -> None:
    """gloo's status counts transfers too, of which its dump holds none: ranks 0 and 1 have made three each."""
    dumps = {}
    for rank in range(4):
        last, transfers = (5 if rank != 1 else 4), (3 if rank < 2 else 0)
        rows = [entry(k, k, backend="gloo", done=k < 5) for k in range(1, last + 1)]
        dumps[rank] = dump(rows, WORLD, status={0: (last + transfers, 4 + transfers)})
        dumps[rank]["comm_lib_version"] = ""
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("H101", (1,), (0, 2, 3))


SIZES = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at pair.cc:456] "
)


def test_the_rank_that_gloo_aborts_for_its_peers_size_is_not_accused(tmp_path: Path) -> None:
    (tmp_path / "rank_1.log").write_text(f"{SIZES}op.preamble.length <= op.nbytes. 2048 vs 2016.\n")
    (tmp_path / "launcher.log").write_text(
        "  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: 9)  (SIGABRT)\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 9\n"
    )
    finding = verdict(tmp_path)
    assert (finding.kind.value, finding.cause.value, finding.culprit_ranks) == ("mismatch", "shape", ())
    (tmp_path / "rank_1.log").write_text("")
    assert verdict(tmp_path).culprit_ranks == (1,)


def test_the_launchers_table_names_the_rank_that_a_signal_ended(tmp_path: Path) -> None:
    """The line of the exit code has the signal's name too, and no rank."""
    (tmp_path / "launcher.log").write_text(
        "Root Cause (first observed failure):\n[0]:\n  rank      : 3 (local_rank: 3)\n"
        "  exitcode  : -11 (pid: 9)  (SIGSEGV)\n  traceback : Signal 11 (SIGSEGV) received by PID 9\n"
    )
    finding = verdict(tmp_path)
    assert (finding.cause.value, finding.culprit_ranks) == ("segfault", (3,))


GDB = "Thread 3 (LWP 12):\n#0  0x00007f1c4d0e3a35 in poll () from /lib64/libc.so.6\n#1  main () at /x.c:3\n"


def test_h161_a_backtrace_of_gdb_is_told_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "gdb.txt"
    path.write_text(GDB)
    (found,) = [f for f in explain_paths([path]).findings if f.code == "H161"]
    assert found.message == f"{path} is a backtrace of gdb: it tells C functions and no line of the program"
    assert found.next == "py-spy dump --native --pid PID > stacks.txt, then emberward explain stacks.txt"


def test_h161_a_stack_of_py_spy_and_a_page_about_gdb_are_none(tmp_path: Path) -> None:
    (tmp_path / "stacks.txt").write_text("\n".join(map(spy_text, range(4))))
    (tmp_path / "notes.txt").write_text("#1 look at gdb (if it is there)\nthread apply all bt\n")
    assert "H161" not in codes(tmp_path)
