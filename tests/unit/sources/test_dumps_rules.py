"""The hang judge, one rule a test, on dumps made by hand; each fault with the look-alike that must pass."""

import os
from pathlib import Path

import pytest
from unit.sources.dump_samples import DATA, T0_NS, dump, entry, write

from emberward.diagnose import host_of_name, rank_of_name
from emberward.events import Observer
from emberward.findings import Cause, Certainty, Finding, Kind, Severity, exit_code_of
from emberward.match import Outcome, check
from emberward.sources.dumps import explain_paths, flight_trace, gather

WORLD = {("0", "default_pg"): [0, 1, 2, 3]}
TP = (1, "1", "TP")


def verdict(folder: Path) -> Finding:
    return explain_paths([folder]).explanations[0].verdict


def steps(last: int, *, open_last: bool = True, **facts: object) -> list[dict[str, object]]:
    return [entry(k, k, done=not (open_last and k == last), **facts) for k in range(1, last + 1)]  # type: ignore[arg-type]


def test_a_rank_that_never_arrived_is_named_and_waiters_are_not(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in (0, 1, 3)}
    dumps[2] = dump(steps(4, open_last=False), WORLD, status={0: (4, 4)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("H101", (2,), (0, 1, 3))


def test_a_chain_of_waits_ends_at_its_root_and_not_at_the_nearest_waiter(tmp_path: Path) -> None:
    """Rank 3 is stuck; 2 waits for it in TP, and 0 and 1 wait for 2 in a group of their own."""
    tail = {("1", "TP"): [2, 3], ("2", "CHAIN"): [0, 1, 2]}
    chain = (2, "2", "CHAIN")
    dumps = {
        0: dump([entry(1, 7, pg=chain, done=False)], {**WORLD, ("2", "CHAIN"): [0, 1, 2]}),
        1: dump([entry(1, 7, pg=chain, done=False)], {**WORLD, ("2", "CHAIN"): [0, 1, 2]}),
        2: dump([entry(1, 6, pg=chain), entry(2, 9, pg=TP, done=False)], {**WORLD, **tail}),
        3: dump([entry(1, 8, pg=TP)], {**WORLD, ("1", "TP"): [2, 3]}),
    }
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.waiting_ranks) == ((3,), (0, 1, 2))


def test_rings_that_were_overwritten_still_align_by_the_groups_own_count(tmp_path: Path) -> None:
    """The ranks' rings begin at different calls, and record numbers differ by thousands."""
    dumps = {}
    for rank, first in ((0, 90), (1, 95), (2, 60), (3, 91)):
        last = 100 if rank != 2 else 99
        rows = [entry(5000 * rank + k, k, done=k < 100) for k in range(first, last + 1)]
        dumps[rank] = dump(rows, WORLD, status={0: (last, 99)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert finding.culprit_ranks == (2,)
    assert any("mismatch" in line for line in finding.ruled_out)


@pytest.mark.parametrize(("op", "cause"), [("broadcast", Cause.DIFFERENT_OP), ("all_reduce", Cause.DTYPE)])
def test_the_odd_call_out_is_named_whoever_comes_first(tmp_path: Path, op: str, cause: Cause) -> None:
    """torch's analyzer takes the first rank as the reference and blames the three innocent ones."""
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in range(4)}
    odd = steps(4, open_last=False)
    odd.append(entry(5, 5, op=op, dtype="Float" if op == "broadcast" else "Int", done=False, line=33))
    dumps[0] = dump(odd, WORLD, status={0: (5, 4)})  # type: ignore[arg-type]
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.kind, finding.cause, finding.culprit_ranks) == (Kind.MISMATCH, cause, (0,))
    assert finding.site == "train.py:33"


def test_a_silent_type_mismatch_in_the_past_is_found_without_a_hang(tmp_path: Path) -> None:
    """gloo lets int32 meet fp32 of the same size and goes on."""
    dumps = {r: dump(steps(9, open_last=False), WORLD, status={0: (9, 9)}) for r in range(4)}
    rows = steps(9, open_last=False)
    rows[3] = entry(4, 4, dtype="Int", line=21)
    dumps[2] = dump(rows, WORLD, status={0: (9, 9)})  # type: ignore[arg-type]
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.cause, finding.culprit_ranks, finding.site) == (Cause.DTYPE, (2,), "train.py:21")


def test_gathers_and_scatters_may_differ_in_size_by_right(tmp_path: Path) -> None:
    dumps = {}
    for r in range(4):
        rows = [entry(k, k, op="all_to_all", size=8 + r) for k in (1, 2, 3)]
        dumps[r] = dump([*rows, entry(4, 4, op="scatter", size=0 if r else 32)], WORLD, status={0: (4, 4)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.severity) == ("H110", Severity.NOTICE)


def test_a_missing_dump_is_unknown_and_never_guilty(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in (0, 1, 2)}
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.certainty) == ("H107", Certainty.UNKNOWN)
    assert finding.culprit_ranks == ()
    assert "the dump of rank 3 is missing" in finding.message


def test_a_missing_dump_beside_a_found_culprit_is_told_and_changes_nothing(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in (0, 1)}
    dumps[2] = dump(steps(4, open_last=False), WORLD, status={0: (4, 4)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert finding.culprit_ranks == (2,)
    assert any("no dump of rank 3: unknown, not guilty" in line for line in finding.evidence)


def test_orders_that_differ_are_a_cycle_without_a_culprit(tmp_path: Path) -> None:
    groups = {**WORLD, ("1", "TP"): [0, 1, 2, 3]}
    rows = {}
    for r in range(4):
        past = [entry(2 * k - 1, k, line=5) for k in (1, 2)] + [entry(2 * k, k, pg=TP, line=6) for k in (1, 2)]
        past.sort(key=lambda e: e["record_id"])
        last = entry(9, 3, line=5, done=False) if r < 2 else entry(9, 3, pg=TP, line=8, done=False)
        rows[r] = dump([*past, last], groups)
    finding = verdict(write(tmp_path / "d", rows))
    assert (finding.code, finding.kind, finding.cause) == ("M104", Kind.DEADLOCK, Cause.CYCLE_COLLECTIVE)
    assert finding.culprit_ranks == ()
    assert finding.cycle is not None
    assert {member.rank for member in finding.cycle} == {0, 1, 2, 3}


def test_a_ring_of_nccl_receives_is_a_p2p_cycle(tmp_path: Path) -> None:
    dumps = {r: dump([entry(1, 0, op="recv", peer=f"{r}<-{(r - 1) % 4}", done=False, line=9)], WORLD) for r in range(4)}
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.kind, finding.cause) == (Kind.DEADLOCK, Cause.CYCLE_P2P)


def test_who_sits_in_a_receive_that_no_dump_holds_waits_for_the_one_whose_call_differs(tmp_path: Path) -> None:
    """Rank 2 has a call too many; the stage before it, ranks 0 and 5, stands still for lack of it."""
    dp, stage = (1, "1", "DP"), (2, "2", "STAGE")
    groups = {("0", "default_pg"): [*range(6)], ("1", "DP"): [2, 3, 4], ("2", "STAGE"): [0, 5]}
    past = [entry(k, k, pg=dp, line=5) for k in (1, 2, 3)]
    dumps = {r: dump([*past, entry(4, 4, pg=dp, line=5, done=False)], groups) for r in (3, 4)}
    dumps[2] = dump([*past, entry(4, 4, pg=dp, op="all_gather", line=8, done=False)], groups)
    dumps[5] = dump([entry(1, 1, pg=stage, line=5, done=False)], groups)
    dumps[0] = dump([], groups)
    folder = write(tmp_path / "d", dumps)
    receive = (
        "    recv (torch/distributed/distributed_c10d.py:2500)\n    forward (train.py:9)\n    <module> (train.py:20)\n"
    )
    (folder / "stacks_rank_0.txt").write_text(py_spy(100, receive))
    explanation = explain_paths([folder]).explanations[0]
    assert [f.culprit_ranks for f in explanation.findings if f.severity is Severity.ERROR] == [(2,)]
    assert explanation.verdict.site == "train.py:8"
    for rank in (2, 3, 4):
        (folder / f"rank_{rank}").unlink()
    alone = verdict(folder)
    assert (alone.code, alone.culprit_ranks) == ("H109", (0,)), (
        "with no other in sight it is the one that is waited for"
    )


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ([6, 6, 6], ("H104", Cause.SKIPPED_COLLECTIVE, (3,), "train.py:5")),
        ([6, 5, 7], ("M104", Cause.CYCLE_COLLECTIVE, (), None)),
    ],
    ids=["one step more than ever", "rounds of no one length"],
)
def test_a_rank_that_passes_a_barrier_of_every_sixth_step_is_named(
    tmp_path: Path, past: list[int], expected: tuple[object, ...]
) -> None:
    """Each step calls in a pair's group; after six of them all meet in a barrier, which rank 3 leaves out."""
    pair = (1, "1", "TP")
    groups = {("0", "default_pg"): [0, 1, 2, 3], ("1", "TP"): [2, 3]}

    def rounds(steps: list[int], *, has_pair: bool = True) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        for number, count in enumerate(steps, start=1):
            rows += [entry(0, 0, pg=pair, line=5) for _ in range(count if has_pair else 0)]
            rows.append(entry(0, number, op="barrier", line=9))
        seqs = iter(range(1, 99))
        return [
            {**row, "record_id": n, "collective_seq_id": next(seqs) if row["pg_id"] else row["collective_seq_id"]}
            for n, row in enumerate(rows, start=1)
        ]

    def opened(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [*rows[:-1], {**rows[-1], "retired": False, "state": "scheduled"}]

    dumps = {r: dump(opened(rounds([*past, 6], has_pair=False)), groups) for r in (0, 1)}
    dumps[2] = dump(opened(rounds([*past, 6])), groups)
    dumps[3] = dump(opened(rounds([*past, 7])[:-1]), groups)
    found = explain_paths([write(tmp_path / "d", dumps)]).explanations[0].verdict
    assert (found.code, found.cause, found.culprit_ranks, found.site) == expected


def test_two_that_wait_do_not_accuse_two_while_other_ranks_left_no_dump(tmp_path: Path) -> None:
    """Ranks 6 and 7 sit in receives, which gloo does not record, from ranks of which one left no dump."""
    groups = {("0", "default_pg"): [*range(8)], ("1", "LEFT"): [4, 6], ("2", "RIGHT"): [5, 7]}
    dumps = {r: dump([], groups) for r in (0, 1, 2, 3, 6, 7)}
    for rank, group in ((4, (1, "1", "LEFT")), (5, (2, "2", "RIGHT"))):
        dumps[rank] = dump([entry(1, 1, pg=group, backend="gloo", done=False)], groups)
    finding = verdict(write(tmp_path / "all", dumps))
    assert (finding.code, finding.culprit_ranks) == ("H101", (6, 7))
    del dumps[2]
    finding = verdict(write(tmp_path / "part", dumps))
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("H107", (), (4, 5))


def test_a_call_that_all_issued_and_none_completes_is_a_stall_of_its_group(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in range(4)}
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H103", Cause.DEVICE_STALL, ())


def test_a_rank_that_does_not_complete_what_its_peers_completed_is_late_on_its_device(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5, open_last=False), WORLD, status={0: (5, 5)}) for r in (0, 1, 2)}
    dumps[3] = dump(steps(5), WORLD, status={0: (5, 4)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.culprit_ranks) == ("H102", (3,))


def test_a_call_that_just_runs_is_a_notice(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in range(4)})
    for path in folder.iterdir():
        os.utime(path, ns=(T0_NS + 10**9, T0_NS + 10**9))
    result = explain_paths([folder])
    assert result.explanations[0].verdict.severity is Severity.NOTICE
    assert exit_code_of(result.findings) == 0


@pytest.mark.parametrize("version", ["2.4", "2.5", "2.7", "2.9", "2.10"])
def test_formats_without_status_and_with_null_fields_give_the_same_answer(tmp_path: Path, version: str) -> None:
    dumps = {r: dump(steps(5), WORLD, version=version) for r in (0, 1, 3)}
    dumps[2] = dump(steps(4, open_last=False), WORLD, version=version)
    for data in dumps.values():
        for row in data["entries"]:
            row["thread_id"] = row["retired"] = None
            if version == "2.4":
                del row["is_p2p"], row["timeout_ms"]
    assert verdict(write(tmp_path / "d", dumps, form="json")).culprit_ranks == (2,)


@pytest.mark.parametrize("version", ["3.0", "1.9"])
def test_an_unknown_format_is_refused_with_a_finding(tmp_path: Path, version: str) -> None:
    folder = write(tmp_path / "d", {0: dump(steps(3), WORLD, version=version)})
    findings = explain_paths([folder]).findings
    assert [f.code for f in findings] == ["H107", "H108"]
    assert f"format {version}" in findings[1].evidence[0]


def test_a_pickle_that_names_a_function_is_refused_and_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    payload = f"cos\nsystem\n(S'touch {marker}'\ntR.".encode()
    (tmp_path / "rank_0").write_bytes(b"\x80\x02" + payload)
    findings = explain_paths([tmp_path / "rank_0"]).findings
    assert not marker.exists()
    assert any("names os.system; plain data names no class" in line for f in findings for line in f.evidence)


@pytest.mark.parametrize(
    ("name", "rank", "host"),
    [
        ("rank_3", 3, None),
        ("_dump_3", 3, None),
        ("nccl_trace_rank_12", 12, None),
        ("json_3", 3, None),
        ("rank_0.json", 0, None),
        ("node7_rank_15", 15, "node7"),
        ("gpu-04_3", 3, "gpu-04"),
        ("rank7.log", 7, None),
        ("trace-jean-zay-iam02.out", None, "jean-zay-iam02"),
        ("train.log", None, None),
        ("README", None, None),
    ],
)
def test_ranks_and_hosts_are_read_from_names(name: str, rank: int | None, host: str | None) -> None:
    assert (rank_of_name(name), host_of_name(name)) == (rank, host)


def test_dumps_are_a_trace_that_match_judges(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", {r: dump(steps(9, open_last=False), WORLD) for r in range(4)})
    trace = flight_trace(gather([folder])[0])
    assert trace.observer is Observer.DUMP
    assert trace.world_size == 4
    assert check(trace).outcome is Outcome.SAFE


@pytest.mark.parametrize(
    ("file", "code", "kind"),
    [
        ("stacks/ras_mismatch.txt", "H114", Kind.NONE),
        ("stacks/ras_dead.txt", "H114", Kind.CRASH),
        ("stacks/ras_unresponsive.json", "H114", Kind.HANG),
        ("logs/nccl_ib_error12.txt", "H113", Kind.LINK),
        ("logs/pytorch_118369_seqnum_skew.txt", "H104", Kind.MISSING),
        ("stacks/dataloader_deadlock_pyspy.txt", "H107", Kind.HANG),
    ],
)
def test_reports_and_logs_of_others(file: str, code: str, kind: Kind) -> None:
    finding = verdict(DATA / file)
    assert (finding.code, finding.kind) == (code, kind)
    if code == "H104":
        assert finding.culprit_ranks == (), "two ranks of eight speak: no majority"


def test_a_desync_report_names_the_rank_that_did_not_join(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(
        "[rank1]:[E ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600004 "
        "milliseconds before timing out.\n"
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
        "\t     [2] finished collective #87, but didn't join collective #88 (count from 1)\n"
    )
    finding = verdict(tmp_path / "job.log")
    assert (finding.culprit_ranks, finding.waiting_ranks) == ((2,), (1,))


def test_a_rank_that_died_is_a_crash_and_its_peers_are_victims(tmp_path: Path) -> None:
    dumps = {r: dump(steps(5), WORLD, status={0: (5, 4)}) for r in (0, 1, 3)}
    dumps[2] = dump(steps(4, open_last=False), WORLD, status={0: (4, 4)})
    folder = write(tmp_path / "d", dumps)
    (folder / "rank_2.log").write_text(
        "step 4\nTraceback (most recent call last):\n"
        '  File "/job/train.py", line 14, in step\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    finding = verdict(folder)
    assert (finding.code, finding.kind, finding.cause) == ("L102", Kind.CRASH, Cause.OUT_OF_MEMORY)
    assert (finding.culprit_ranks, finding.site) == ((2,), "train.py:14")


def test_faulthandler_stacks_of_ranks_are_read(tmp_path: Path) -> None:
    tail = '  File "/job/train.py", line {} in step\n  File "/job/train.py", line 20 in <module>\n'
    library = '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce\n'
    wait = "Thread 0x00007f01 (most recent call first):\n" + library + tail.format(9)
    library = '  File "/usr/lib/python3.11/threading.py", line 327 in wait\n'
    busy = "Current thread 0x00007f01 (most recent call first):\n" + library + tail.format(7)
    for rank in range(4):
        (tmp_path / f"rank_{rank}.txt").write_text(busy if rank == 1 else wait)
    finding = verdict(tmp_path)
    assert (finding.culprit_ranks, finding.cause, finding.site) == ((1,), Cause.LOCK, "train.py:7")


def py_spy(pid: int, frames: str, state: str = "idle") -> str:
    return f'Process {pid}: python train.py\nPython v3.11\n\nThread {pid} ({state}): "MainThread"\n{frames}\n'


def test_ranks_that_idle_below_python_at_one_line_are_a_crowd_that_waits(tmp_path: Path) -> None:
    """`work.wait()` leaves no frame of torch: three idle at it, and one waits for an event."""
    crowd = "    step (train.py:9)\n    <module> (train.py:20)\n"
    odd = "    wait (threading.py:327)\n    step (train.py:7)\n    <module> (train.py:20)\n"
    (tmp_path / "all.txt").write_text("".join(py_spy(100 + i, odd if i == 2 else crowd) for i in range(4)))
    finding = verdict(tmp_path / "all.txt")
    assert (finding.culprit_pids, finding.cause, finding.site) == ((102,), Cause.LOCK, "train.py:7")
    (tmp_path / "train.py").write_text("\n" * 8 + "    work.wait()\n")
    assert verdict(tmp_path / "all.txt").culprit_pids == (102,)


def test_ranks_that_all_compute_are_no_hang(tmp_path: Path) -> None:
    texts = [py_spy(100 + i, f"    f (train.py:{5 + i})\n    <module> (train.py:20)\n", "active+gil") for i in range(4)]
    (tmp_path / "all.txt").write_text("".join(texts))
    finding = verdict(tmp_path / "all.txt")
    assert (finding.code, finding.severity, finding.culprit_pids) == ("H110", Severity.NOTICE, ())


def test_two_ras_reports_with_the_same_gap_are_a_hang_and_one_is_not(tmp_path: Path) -> None:
    text = (DATA / "stacks" / "ras_mismatch.txt").read_text()
    for name in ("first.txt", "second.txt"):
        (tmp_path / name).write_text(text)
    finding = verdict(tmp_path)
    assert (finding.severity, finding.culprit_ranks, finding.hosts) == (Severity.ERROR, (7,), ("node1",))


def test_a_folder_of_an_emberward_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "rank00003.json").write_text(
        '{"rank": 3, "host": "h", "time_unix": 1.0, "type": "MemoryError", "message": "", "traceback": ""}'
    )
    finding = verdict(tmp_path)
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("L102", (3,), Cause.OUT_OF_MEMORY)


def test_a_runs_notes_about_its_ranks_give_ranks_to_stacks_and_are_no_broken_dumps(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for rank in range(4):
        (tmp_path / "ranks" / f"rank{rank:05d}.json").write_text(
            f'{{"rank": {rank}, "pid": {100 + rank}, "host": "h"}}'
        )
    crowd = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:9)\n"
    odd = "    wait (threading.py:327)\n    step (train.py:7)\n"
    (tmp_path / "all.txt").write_text("".join(py_spy(100 + i, odd if i == 2 else crowd) for i in range(4)))
    findings = explain_paths([tmp_path]).findings
    assert [(f.code, f.culprit_ranks) for f in findings] == [("H106", (2,))]


@pytest.mark.parametrize("num_ranks", [2, 400])
@pytest.mark.parametrize("odd", [0, 1])
def test_of_two_that_differ_the_one_that_left_its_usual_order_is_named_in_a_job_of_any_size(
    tmp_path: Path, num_ranks: int, odd: int
) -> None:
    pair, groups = (1, "1", "pair"), {("0", "default_pg"): list(range(num_ranks)), ("1", "pair"): [0, 1]}
    past = [
        entry(2 * n + at, 2 * n + at, pg=pair, op=op, line=10 + at)
        for n in range(4)
        for at, op in ((1, "all_reduce"), (2, "broadcast"))
    ]
    usual, other = (
        entry(9, 9, pg=pair, op=op, line=line, done=False) for op, line in (("all_reduce", 11), ("broadcast", 30))
    )
    dumps = {rank: dump([entry(1, 1)], groups) for rank in range(num_ranks)}
    dumps |= {odd: dump([*past, other], groups), 1 - odd: dump([*past, usual], groups)}
    write(tmp_path, dumps)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("M101", (odd,), (1 - odd,))
