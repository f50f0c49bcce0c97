"""What stacks alone tell, where the plain comparison of processes would leave it open or name the wrong one."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from unit.sources.dump_samples import dump, entry, write

from emberward.diagnose import Frame, may_act
from emberward.findings import Cause, Finding, Severity
from emberward.sources.dumps import explain_paths

C10D = "torch/distributed/distributed_c10d.py"
PROGRAM = """def fit(x, patience):
    while not patience.is_over():
        work(x)
        all_reduce(x)

def train(x):
    fit(x, Patience())
    all_gather_object(x)

def guarded(x):
    for batch in x:
        try:
            all_reduce(batch)
        except ValueError:
            print("skipped")
        barrier()

def branches(x):
    if x.any():
        fit(x, Patience())
    else:
        all_gather_object(x)

def retried(x):
    for batch in x:
        try:
            send(batch)
        except OSError:
            time.sleep(60)
        all_reduce(batch)

def one(batch):
    check(batch)
    all_reduce(batch)

def epoch(batches):
    for batch in batches:
        try:
            one(batch)
        except ValueError:
            log(batch)
    all_gather_object(batches)
"""


def process(pid: int, *frames: str, others: Sequence[Sequence[str]] = (), rank: int | None = None) -> str:
    """py-spy's text of a process: the main thread's frames, innermost first, and those of `others`."""
    lines = [] if rank is None else [f"rank {rank}:"]
    lines += [f"Process {pid}: python job.py", "Python v3.11", "", f'Thread {pid} (idle): "MainThread"']
    lines += [f"    {frame}" for frame in frames]
    for number, stack in enumerate(others, start=1):
        lines += [f'Thread {pid + 100 * number} (idle): "Thread-{number}"', *(f"    {frame}" for frame in stack)]
    return "\n".join([*lines, ""])


def verdict(folder: Path, texts: Sequence[str]) -> Finding:
    (folder / "job.py").write_text(PROGRAM)
    (folder / "stacks.txt").write_text("\n".join(texts))
    return explain_paths([folder]).explanations[0].verdict


CALL, GATHER, BARRIER = (f"{name} ({C10D}:9)" for name in ("all_reduce", "all_gather_object", "barrier"))


def test_a_rank_that_came_back_from_a_loop_in_which_the_others_are_had_fewer_turns(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "fit (job.py:4)", "train (job.py:7)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, GATHER, "train (job.py:8)", "<module> (job.py:30)")])
    assert (found.cause.value, found.culprit_pids, found.site) == ("uneven_data", (4,), "job.py:8")
    assert found.message == (
        "process 4 left the loop that the others are still in (job.py:4), and is at job.py:8: it had fewer turns"
    )


def test_a_call_that_is_guarded_in_the_loop_that_a_process_left_was_swallowed_there(tmp_path: Path) -> None:
    """The end of the loop alone would be the end of the data."""
    texts = [process(pid, CALL, "one (job.py:34)", "epoch (job.py:39)", "<module> (job.py:60)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, GATHER, "epoch (job.py:42)", "<module> (job.py:60)")])
    assert (found.cause.value, found.culprit_pids, found.site) == ("swallowed_exception", (4,), "job.py:40")


def test_of_two_processes_the_text_tells_who_left_the_loop(tmp_path: Path) -> None:
    inside = process(1, CALL, "fit (job.py:4)", "train (job.py:7)", "<module> (job.py:30)")
    behind = process(2, GATHER, "train (job.py:8)", "<module> (job.py:30)")
    for texts in ([inside, behind], [behind, inside]):
        found = verdict(tmp_path, texts)
        assert (found.code, found.cause.value, found.culprit_pids) == ("H104", "uneven_data", (2,))
        assert "job.py:8 reads: all_gather_object(x)" in found.evidence


def test_of_two_processes_the_one_under_a_condition_makes_a_call_too_many(tmp_path: Path) -> None:
    text = "def main(x):\n    if x.rank == 0:\n        barrier(x)\n    all_reduce(x)\n"
    (tmp_path / "guard.py").write_text(text)
    texts = [process(1, BARRIER, "main (guard.py:3)"), process(2, CALL, "main (guard.py:4)")]
    found = verdict(tmp_path, texts)
    assert (found.cause.value, found.culprit_pids, found.site) == ("extra_collective", (1,), "guard.py:3")
    assert any("if x.rank == 0" in line for line in found.evidence)
    (tmp_path / "guard.py").write_text(text.replace("    if x.rank == 0:\n    ", "    x.check()\n"))
    found = verdict(tmp_path, texts)
    assert (found.code, found.culprit_pids) == ("H107", ())
    assert "without a stack" not in found.next, "both left one"


def test_the_other_branch_of_a_choice_is_no_loop_that_was_left(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "fit (job.py:4)", "branches (job.py:20)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, GATHER, "branches (job.py:22)", "<module> (job.py:30)")])
    assert (found.cause.value, found.culprit_pids) == ("different_op", (4,))


def test_a_swallowed_exception_is_seen_without_ranks_too(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "guarded (job.py:13)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, BARRIER, "guarded (job.py:16)", "<module> (job.py:30)")])
    assert (found.cause.value, found.culprit_pids) == ("swallowed_exception", (4,))
    assert found.message.startswith("process 4 left out a call after an exception that the program caught")


def test_who_sleeps_in_a_handler_is_about_to_try_again(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "retried (job.py:30)", "<module> (job.py:40)", rank=pid) for pid in (0, 1, 2)]
    found = verdict(tmp_path, [*texts, process(3, "retried (job.py:29)", "<module> (job.py:40)", rank=3)])
    assert (found.cause.value, found.culprit_ranks, found.site) == ("sleep", (3,), "job.py:29")


def test_a_group_that_one_process_does_not_create_is_named_by_its_number(tmp_path: Path) -> None:
    new_group = (f"_new_group_with_tag ({C10D}:7)", f"new_group ({C10D}:8)", "main (job.py:3)", "<module> (job.py:30)")
    texts = [process(pid, *new_group) for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, CALL, "main (job.py:4)", "<module> (job.py:30)")])
    assert (found.code, found.culprit_pids) == ("H129", (4,))
    assert found.message == "process 4 does not create the group that processes 1, 2, 3 create at job.py:3"


def queue_full(pid: int, thread: Sequence[str]) -> str:
    return process(
        pid, "wait (threading.py:320)", "put (queue.py:140)", "main (job.py:5)", "<module> (job.py:30)", others=[thread]
    )


def test_main_threads_that_wait_for_threads_that_wait_for_peers_are_a_cycle_of_credits(tmp_path: Path) -> None:
    serving = (f"recv ({C10D}:9)", "serve (job.py:2)", "run (threading.py:982)")
    found = verdict(tmp_path, [queue_full(pid, serving) for pid in (1, 2)])
    assert (found.code, found.kind.value, found.cause.value) == ("H133", "deadlock", "cycle_credit")
    assert found.message == (
        "all 2 processes wait for a thread of their own, which waits for a peer: waits for a lock, an event or a "
        "thread in main() at job.py:5, and its thread is at job.py:2"
    )


def test_main_threads_that_wait_beside_idle_threads_are_no_cycle(tmp_path: Path) -> None:
    idle = ("wait (threading.py:320)", "get (queue.py:171)", "serve (job.py:2)", "run (threading.py:982)")
    assert verdict(tmp_path, [queue_full(pid, idle) for pid in (1, 2)]).code == "H106"


def test_two_crowds_of_which_one_is_in_a_rooted_call_are_no_cycle(tmp_path: Path) -> None:
    """The root of a broadcast leaves it while others may wait for ever: the later call proves nothing."""
    early = [process(pid, f"broadcast ({C10D}:9)", "main (job.py:3)", "<module> (job.py:30)") for pid in (1, 2)]
    late = [process(pid, CALL, "main (job.py:4)", "<module> (job.py:30)") for pid in (3, 4)]
    assert verdict(tmp_path, [*early, *late]).code == "H107"
    assert verdict(tmp_path, [early[0], *late, late[0].replace("3", "5")]).code == "H107"
    crossed = [text.replace("broadcast", "all_gather") for text in early]
    assert verdict(tmp_path, [*crossed, *late]).code == "H111"


def test_one_of_three_is_no_majority_against_the_fourth_that_left_no_stack(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "main (job.py:3)", "<module> (job.py:30)") for pid in (1, 2)]
    odd = process(3, BARRIER, "main (job.py:4)", "<module> (job.py:30)")
    assert verdict(tmp_path, [*texts, odd]).code == "H107"
    third = process(4, CALL, "main (job.py:3)", "<module> (job.py:30)")
    assert verdict(tmp_path, [*texts, odd, third]).culprit_pids == (3,)


def test_a_read_of_a_socket_is_no_receive_from_a_rank(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "def fetch(line):\n    return line.recv(65536)\n\n\ndef take(x):\n    dist.recv(x)\n"
    )
    texts = [process(pid, CALL, "main (job.py:3)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, "fetch (net.py:2)", "main (job.py:4)", "<module> (job.py:30)")])
    assert (found.code, found.culprit_pids, found.site) == ("H106", (4,), "net.py:2")
    found = verdict(tmp_path, [*texts, process(4, "take (net.py:6)", "main (job.py:4)", "<module> (job.py:30)")])
    assert (found.code, found.cause.value) == ("H109", "unmatched_p2p")


def test_a_rooted_call_under_a_condition_is_one_too_many(tmp_path: Path) -> None:
    text = "def main(x):\n    if x.rank == 0:\n        reduce(x)\n    all_reduce(x)\n"
    (tmp_path / "loop.py").write_text(text)
    texts = [process(pid, CALL, "main (loop.py:4)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    odd = process(4, f"reduce ({C10D}:9)", "main (loop.py:3)", "<module> (job.py:30)")
    found = verdict(tmp_path, [*texts, odd])
    assert (found.culprit_pids, found.cause.value) == ((4,), "extra_collective")
    (tmp_path / "loop.py").write_text(text.replace("    if x.rank == 0:\n    ", "    x.check()\n"))
    assert verdict(tmp_path, [*texts, odd]).code == "H107", "a root leaves a call that all make"


def test_the_processes_of_a_pool_are_children_and_no_ranks(tmp_path: Path) -> None:
    """They idle like main threads that wait for a lock; named by their parent in text, by their stack in JSON."""
    idle = ("get (multiprocessing/queues.py:364)", "worker (multiprocessing/pool.py:114)", "<module> (job.py:30)")
    texts = [process(pid, CALL, "main (job.py:3)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    pool = [
        process(pid, *idle).replace("Python v3.11", "Parent Process 4: python job.py\nPython v3.11") for pid in (5, 6)
    ]
    waits = ("wait (threading.py:327)", "map (multiprocessing/pool.py:367)", "main (job.py:4)", "<module> (job.py:30)")
    found = verdict(tmp_path, [*texts, process(4, *waits), *pool])
    assert (found.culprit_pids, found.site, found.cause.value) == ((4,), "job.py:4", "lock")
    (tmp_path / "stacks.txt").unlink()

    def thread(pid: int, *names: tuple[str, str]) -> dict[str, object]:
        frames = [{"name": name, "filename": file, "line": 3} for name, file in names]
        return {"pid": pid, "thread_id": pid, "thread_name": "MainThread", "active": False, "frames": frames}

    program = ("<module>", "/job/job.py")
    child = (("get", "multiprocessing/queues.py"), ("BaseProcess._bootstrap", "multiprocessing/process.py"), program)
    for rank in range(3):
        main = (("wait", "threading.py") if rank == 1 else ("all_reduce", C10D), ("main", "/job/job.py"), program)
        whole = [thread(10 + rank, *main), thread(20 + rank, *child), thread(30 + rank, *child)]
        (tmp_path / f"pyspy_rank_{rank}.json").write_text(json.dumps(whole))
    assert explain_paths([tmp_path]).explanations[0].verdict.culprit_ranks == (1,)


def test_a_wrapper_of_a_library_is_not_the_programs_line(tmp_path: Path) -> None:
    wrapped = (CALL, "deprecated.__call__.<locals>.wrapper (typing_extensions.py:3140)")
    texts = [process(pid, *wrapped, "main (job.py:3)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    waits = ("wait (threading.py:320)", "__iter__ (tqdm/std.py:1181)", "main (job.py:4)", "<module> (job.py:30)")
    found = verdict(tmp_path, [*texts, process(4, *waits)])
    assert (found.culprit_pids, found.site) == ((4,), "job.py:4")
    assert "in main() at job.py:3" in " ".join(found.evidence)


def test_the_workers_in_a_json_of_one_rank_belong_to_it(tmp_path: Path) -> None:
    """py-spy's JSON tells no parents: people put those of a rank and its children into one file."""

    def thread(pid: int, *frames: tuple[str, str, int]) -> dict[str, object]:
        rows = [{"name": name, "filename": file, "line": line} for name, file, line in frames]
        return {"pid": pid, "thread_id": pid, "thread_name": "MainThread", "active": False, "frames": rows}

    loader, module = "torch/utils/data/dataloader.py", ("<module>", "/job/job.py", 30)
    for rank in range(3):
        inner = ("_try_get_data", loader, 9) if rank == 1 else ("all_reduce", C10D, 9)
        worker = thread(
            100 + rank,
            *([("load", "/job/data.py", 5)] if rank == 1 else [("poll", "multiprocessing/connection.py", 4)]),
            ("_worker_loop", "torch/utils/data/_utils/worker.py", 3),
            module,
        )
        whole = [[thread(10 + rank, inner, ("main", "/job/job.py", 4), module)], [worker]]
        (tmp_path / f"pyspy_rank_{rank}.json").write_text(json.dumps(whole))
    found = explain_paths([tmp_path]).explanations[0].verdict
    assert (found.culprit_ranks, found.cause.value, found.site) == ((1,), "dataloader_worker", "data.py:5")


@pytest.mark.parametrize(("ranks", "code"), [((0, 1), "H104"), ((0, 2), "H107"), ((2, 3), "H107")])
def test_two_sides_of_one_rank_each_are_told_apart_by_the_text_where_nobody_is_missing(
    tmp_path: Path, ranks: tuple[int, int], code: str
) -> None:
    """A rank whose number tells that others exist, which nobody saw: these would tell which side is the odd one."""
    (tmp_path / "loop.py").write_text("def main(x):\n    if x.high():\n        all_reduce(x)\n    all_gather(x)\n")
    module = {"name": "<module>", "filename": "/job/job.py", "line": 30}
    for rank, line in zip(ranks, (3, 4), strict=True):
        inner = {"name": "all_reduce", "filename": C10D, "line": 9}
        main = {"name": "main", "filename": str(tmp_path / "loop.py"), "line": line}
        thread = {"pid": 10 + rank, "thread_id": 1, "thread_name": "MainThread", "active": False}
        (tmp_path / f"pyspy_rank_{rank}.json").write_text(json.dumps([{**thread, "frames": [inner, main, module]}]))
    assert explain_paths([tmp_path]).explanations[0].verdict.code == code


LOOPS = """def reduce_all(handles):
    for handle in handles:
        handle.wait()

def one_epoch(loader):
    for batch in loader:
        net(batch).backward()

def train(x):
    for turn in x:
        reduce_all(x)
        one_epoch(x)
        export(x)

def export(x):
    while not x.is_there():
        time.sleep(1)
"""


@pytest.mark.parametrize(
    ("inside", "cause"), [(("reduce_all", 3, 11), "sleep"), (("one_epoch", 7, 12), "uneven_data")], ids=str
)
def test_who_is_past_a_loop_over_handles_has_left_no_loop_of_steps(
    tmp_path: Path, inside: tuple[str, int, int], cause: str
) -> None:
    (tmp_path / "loop.py").write_text(LOOPS)
    name, line, caller = inside
    crowd = (CALL, f"{name} (loop.py:{line})", f"train (loop.py:{caller})", "<module> (job.py:30)")
    texts = [process(pid, *crowd) for pid in (1, 2, 3)]
    late = process(4, "export (loop.py:17)", "train (loop.py:13)", "<module> (job.py:30)")
    found = verdict(tmp_path, [*texts, late])
    assert (found.culprit_pids, found.cause.value, found.site) == ((4,), cause, "loop.py:17")


def test_of_several_threads_none_is_known_to_keep_a_process_that_has_left(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "main (job.py:3)", "<module> (job.py:30)") for pid in (1, 2, 3)]
    uploads = ("send (net.py:9)", "upload (job.py:7)", "run (threading.py:982)")
    beats = ("wait (threading.py:331)", "beat (job.py:8)", "run (threading.py:982)")
    left = process(4, "_shutdown (threading.py:1590)", others=[uploads])
    assert verdict(tmp_path, [*texts, left]).site == "net.py:9"
    left = process(4, "_shutdown (threading.py:1590)", others=[uploads, beats])
    found = verdict(tmp_path, [*texts, left])
    assert (found.culprit_pids, found.cause.value, found.site) == ((4,), "main_exited", None)


# -- dumps that keep no lines, and the stacks of the same moment -------------------------------------------------------


def bare(record: int, op: str, *, done: bool = True) -> dict[str, object]:
    """A call as torch records it where it is asked for no stacks."""
    return {**entry(record, record, op=op, done=done), "frames": []}


def without_lines(folder: Path, last: str, *, odd: Sequence[str], crowd: Sequence[str], with_stacks: bool) -> Finding:
    """Three rounds of an all_reduce and a barrier, and a call in which rank 2 meets the all_reduce of the others."""
    past = [bare(2 * k + n, op) for k in range(3) for n, op in ((1, "all_reduce"), (2, "barrier"))]
    groups = {("0", "default_pg"): [0, 1, 2, 3]}
    dumps = {r: dump([*past, bare(7, last if r == 2 else "all_reduce", done=False)], groups) for r in range(4)}
    write(folder, dumps)
    if with_stacks:
        for rank in range(4):
            text = process(100 + rank, *(odd if rank == 2 else crowd))
            (folder / f"stacks_rank_{rank}.txt").write_text(text)
    return verdict(folder, [])


AFTER = (BARRIER, "main (job.py:4)", "<module> (job.py:30)")
BEFORE = (CALL, "main (job.py:3)", "<module> (job.py:30)")


def test_stacks_give_the_lines_that_dumps_keep_none_of(tmp_path: Path) -> None:
    found = without_lines(tmp_path, "barrier", odd=AFTER, crowd=BEFORE, with_stacks=True)
    assert (found.culprit_ranks, found.cause.value, found.site) == ((2,), "skipped_collective", "job.py:4")
    assert found.message == (
        "rank 2 left out all_reduce of 8 Float at job.py:3 and is in the call that follows it, barrier of 8 Float at "
        "job.py:4"
    )
    assert found.next == "read the condition around job.py:3: it does not hold on rank 2"


def test_without_lines_and_stacks_the_next_step_is_to_fetch_stacks(tmp_path: Path) -> None:
    found = without_lines(tmp_path, "barrier", odd=AFTER, crowd=BEFORE, with_stacks=False)
    assert (found.culprit_ranks, found.cause.value, found.site) == ((2,), "skipped_collective", None)
    assert found.message == (
        "rank 2 left out all_reduce of 8 Float and is in the call that follows it, barrier of 8 Float"
    )
    assert found.next.startswith("explain the stacks of the same moment too")


def test_two_branches_of_one_choice_are_no_call_too_many_though_dumps_keep_no_lines(tmp_path: Path) -> None:
    odd = (GATHER, "branches (job.py:22)", "main (job.py:40)", "<module> (job.py:41)")
    crowd = (CALL, "fit (job.py:4)", "branches (job.py:20)", "main (job.py:40)", "<module> (job.py:41)")
    found = without_lines(tmp_path, "all_gather", odd=odd, crowd=crowd, with_stacks=True)
    assert (found.culprit_ranks, found.cause.value, found.site) == ((2,), "different_op", "job.py:22")
    ahead = (GATHER, "branches (job.py:19)", "main (job.py:40)", "<module> (job.py:41)")
    found = without_lines(tmp_path, "all_gather", odd=ahead, crowd=crowd, with_stacks=True)
    assert (found.cause.value, found.site) == ("extra_collective", "job.py:19")


def test_without_lines_a_call_of_another_type_than_any_before_is_new(tmp_path: Path) -> None:
    """DDP gathers integers at its start: a float that is gathered later is another call of the program."""
    past = [{**bare(1, "all_gather"), "input_dtypes": ["Long"]}, *(bare(n, "all_reduce") for n in range(2, 7))]
    dumps = {
        r: dump([*past, bare(7, "all_reduce", done=False)], {("0", "default_pg"): [0, 1, 2, 3]}) for r in (1, 2, 3)
    }
    dumps[0] = dump([*past, bare(7, "all_gather", done=False)], {("0", "default_pg"): [0, 1, 2, 3]})
    found = verdict(write(tmp_path, dumps), [])
    assert (found.culprit_ranks, found.cause.value) == ((0,), "extra_collective")


def test_a_thread_of_the_program_in_a_recorded_call_may_act_and_the_recorder_s_own_may_not():
    recorder = Frame(function="inner", file="/x/emberward/sources/_wrap.py", line=3)
    user = Frame(function="serve", file="/x/mine/train.py", line=7)
    begin = Frame(function="run", file="/usr/lib/python3.11/threading.py", line=975)
    assert may_act((recorder, user, begin))
    assert not may_act((recorder, begin))


WORKERS = """import time, threading
gate = threading.Lock()

def read(x):
    time.sleep(20)

def guarded(x):
    gate.acquire()
"""


@pytest.mark.parametrize(("line", "severity"), [(5, Severity.WARNING), (8, Severity.ERROR)])
def test_a_rank_goes_on_when_its_data_worker_does(tmp_path: Path, line: int, severity: Severity) -> None:
    """A worker that sleeps, reads or computes may only be slow; one that waits for a lock never comes."""
    (tmp_path / "data.py").write_text(WORKERS)
    (tmp_path / "stacks.txt").write_text(
        "\n".join(
            [
                *(process(10 + n, f"all_reduce ({C10D}:3000)", "main (job.py:5)") for n in range(3)),
                process(20, "_next_data (torch/utils/data/dataloader.py:1400)", "main (job.py:4)"),
                process(
                    30,
                    f"read (data.py:{line})",
                    "_worker_loop (torch/utils/data/_utils/worker.py:349)",
                    "main (job.py:4)",
                ),
            ]
        )
    )
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.culprit_pids, finding.cause, finding.severity) == ((20,), Cause.DATALOADER_WORKER, severity)
    assert finding.site == f"data.py:{line}"


def test_a_thread_that_idles_where_none_of_its_peers_is_tells_of_a_lock(tmp_path: Path) -> None:
    """No stack shows a lock that the program takes itself; without text a thread that stands beside it tells."""
    refresh = [process(pid, CALL, "main (bank.py:9)", others=[("refresh (bank.py:47)",)]) for pid in (1, 2, 3)]
    stuck = process(4, "evict (bank.py:26)", "main (bank.py:12)", others=[("age (bank.py:36)", "refresh (bank.py:46)")])
    found = verdict(tmp_path, [*refresh, stuck])
    assert (found.cause.value, found.culprit_pids, found.site) == ("lock", (4,), "bank.py:26")
    assert found.severity is Severity.WARNING, "it may be two reads of a slow disk"
    alike = process(4, "evict (bank.py:26)", "main (bank.py:12)", others=[("refresh (bank.py:47)",)])
    assert verdict(tmp_path, [*refresh, alike]).cause.value == "unknown"


def test_a_call_in_a_function_of_its_own_is_one_too_many_where_no_text_tells(tmp_path: Path) -> None:
    texts = [process(pid, CALL, "train (run.py:20)", "<module> (run.py:40)") for pid in (1, 2, 3)]
    found = verdict(
        tmp_path, [*texts, process(4, BARRIER, "save (run.py:9)", "train (run.py:26)", "<module> (run.py:40)")]
    )
    assert (found.cause.value, found.culprit_pids) == ("extra_collective", (4,))
    found = verdict(tmp_path, [*texts, process(4, BARRIER, "train (run.py:26)", "<module> (run.py:40)")])
    assert (found.cause.value, found.culprit_pids) == ("skipped_collective", (4,))


def test_a_ring_of_sends_has_the_line_at_which_most_are(tmp_path: Path) -> None:
    send = [process(pid, f"send ({C10D}:9)", "hand_on (pipe.py:31)", "main (pipe.py:66)") for pid in (1, 2)]
    found = verdict(tmp_path, [*send, process(3, f"send ({C10D}:9)", "hand_back (pipe.py:42)", "main (pipe.py:68)")])
    assert (found.code, found.culprit_pids, found.site) == ("H111", (), "pipe.py:31")


def test_of_two_and_one_the_one_that_a_choice_led_past_the_call_of_the_others_left_it_out(tmp_path: Path) -> None:
    """No condition is around either call; in the one place that returns, one alone can come past the other's."""
    text = "def save(x):\n    if x.exists():\n        return\n    barrier()\n\ndef main(x):\n    for y in x:\n"
    text += "        all_reduce(y)\n        if y % 10 == 0:\n            save(y)\n"
    (tmp_path / "guard.py").write_text(text)
    texts = [process(pid, BARRIER, "save (guard.py:4)", "main (guard.py:10)") for pid in (1, 2)]
    found = verdict(tmp_path, [*texts, process(3, CALL, "main (guard.py:8)")])
    assert (found.culprit_pids, found.cause.value, found.site) == ((3,), "skipped_collective", "guard.py:2")


def test_most_of_them_are_not_accused_of_the_call_that_one_left_out(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text("def main(x):\n    if x.is_due:\n        barrier(x)\n    all_reduce(x)\n")
    texts = [process(pid, BARRIER, "main (guard.py:3)") for pid in (1, 2)]
    assert verdict(tmp_path, [*texts, process(3, CALL, "main (guard.py:4)")]).culprit_pids == ()


POOL = (
    "worker (multiprocessing/pool.py:114)",
    "run (multiprocessing/process.py:108)",
    "_bootstrap (multiprocessing/process.py:314)",
    "Pool.__init__ (multiprocessing/pool.py:215)",
    "main (job.py:30)",
)
RESULT = ("wait (threading.py:327)", "ApplyResult.get (multiprocessing/pool.py:768)", "main (job.py:31)")
MANAGES = ("Pool._handle_tasks (multiprocessing/pool.py:531)", "run (threading.py:982)")


@pytest.mark.parametrize("is_at_work", [True, False])
def test_who_waits_for_a_result_goes_on_only_while_a_worker_of_its_pool_works(
    tmp_path: Path, *, is_at_work: bool
) -> None:
    """A worker that was killed takes its task along; the pool starts another one, which waits for work."""
    idle = ("get (multiprocessing/queues.py:364)", *POOL)
    texts = [process(pid, CALL, "main (job.py:33)", others=[MANAGES]) for pid in (1, 2)]
    texts += [process(3, *RESULT, others=[MANAGES])]
    texts += [process(pid, *idle) for pid in (11, 12, 13)]
    texts += [
        process(14, *(("work (job.py:2)", "mapstar (multiprocessing/pool.py:48)", *POOL) if is_at_work else idle))
    ]
    found = verdict(tmp_path, texts)
    assert (found.code, found.culprit_pids, found.cause.value) == ("H106", (3,), "subprocess")
    assert found.severity is (Severity.WARNING if is_at_work else Severity.ERROR)


POLLS = """import os, time
from pathlib import Path
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(1)
def naps(path):
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize(("function", "line", "cause"), [("wait_for", 5, "file_read"), ("naps", 8, "sleep")])
def test_who_sleeps_and_asks_for_a_file_waits_for_it(tmp_path: Path, function: str, line: int, cause: str) -> None:
    """Also where most do so: who waits for them in a call is not the odd one."""
    (tmp_path / "polls.py").write_text(POLLS)
    asks = [process(pid, f"{function} (polls.py:{line})", "main (job.py:3)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*asks[:1], *(process(pid, CALL, "main (job.py:4)") for pid in (4, 5, 6))])
    assert (found.cause.value, found.culprit_pids, found.severity) == (cause, (1,), Severity.WARNING)
    found = verdict(tmp_path, [*asks, process(4, CALL, "main (job.py:4)")])
    assert found.culprit_pids == ((1, 2, 3) if cause == "file_read" else ())
    if cause == "file_read":
        assert found.message.startswith("each of processes 1, 2, 3 sleeps until a file is there in wait_for() at ")


GROUPS = """import torch.distributed as dist
class Groups:
    def __init__(self, rank):
        if rank in (0, 1):
            self.own = dist.new_group([0, 1])
    def all(self):
        return dist.new_group()
def main(groups):
    dist.all_reduce(1, group=groups.all())
    dist.barrier()
"""


@pytest.mark.parametrize("is_by_some", [True, False])
def test_who_came_through_the_creation_of_a_group_did_not_leave_it_out(tmp_path: Path, *, is_by_some: bool) -> None:
    """Its line makes the group before its call. The text tells which earlier group some alone have made."""
    (tmp_path / "groups.py").write_text(GROUPS if is_by_some else GROUPS.replace("rank in (0, 1)", "True"))
    new_group = (f"_new_group_with_tag ({C10D}:7)", f"new_group ({C10D}:8)", "all (groups.py:7)")
    texts = [process(pid, *new_group, "main (groups.py:9)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, CALL, "main (groups.py:9)")])
    assert (found.code, found.cause.value, found.culprit_pids) == ("H129", "missing_group", ())
    assert found.site == ("groups.py:5" if is_by_some else "groups.py:7")
    if not is_by_some:
        # Who is behind the line, in a job that makes no such group, did not come to the creation.
        found = verdict(tmp_path, [*texts, process(4, CALL, "main (groups.py:10)")])
        assert (found.code, found.culprit_pids) == ("H129", (4,))


EPOCHS = """def main(loader, patience):
    for epoch in range(60):
        for x in loader:
            all_reduce(x)
            opt.step()
        if CONDITION:
            break
    barrier()
"""


@pytest.mark.parametrize(
    ("condition", "cause"), [("patience.is_over()", "skipped_collective"), ("epoch == 50", "uneven_data")]
)
def test_who_broke_off_its_epochs_by_a_choice_of_its_own_had_no_fewer_data(
    tmp_path: Path, condition: str, cause: str
) -> None:
    """Data that end lead to the next epoch; a count of epochs is the same on all."""
    (tmp_path / "epochs.py").write_text(EPOCHS.replace("CONDITION", condition))
    texts = [process(pid, CALL, "main (epochs.py:4)") for pid in (1, 2, 3)]
    found = verdict(tmp_path, [*texts, process(4, BARRIER, "main (epochs.py:8)")])
    assert (found.cause.value, found.culprit_pids) == (cause, (4,))


FINDS = """def find(x):
    for rate in range(5):
        all_reduce(x)
def main(x, rank):
    if rank == 0:
        find(x)
    broadcast(x, src=ROOT)
"""


@pytest.mark.parametrize(("root", "culprits"), [("0", (3,)), ("best(x)", ())])
def test_a_root_that_is_written_down_is_no_reason_to_pass_a_call(
    tmp_path: Path, root: str, culprits: tuple[int, ...]
) -> None:
    """Where ranks work the root out, some may have passed a call that the others stay in."""
    (tmp_path / "finds.py").write_text(FINDS.replace("ROOT", root))
    texts = [process(pid, f"broadcast ({C10D}:9)", "main (finds.py:7)") for pid in (1, 2)]
    found = verdict(tmp_path, [*texts, process(3, CALL, "find (finds.py:3)", "main (finds.py:6)")])
    assert found.culprit_pids == culprits
