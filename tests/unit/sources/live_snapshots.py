"""Looks made by hand: ranks of one group that stand where a test puts them."""

from dataclasses import replace
from typing import Any

from emberward.diagnose import Frame, ProcessStacks, StackSource, ThreadStack
from emberward.diagnose.live import (
    Moment,
    ProcessFacts,
    ProcessState,
    RankSnapshot,
    RingFacts,
    Snapshot,
    ThreadFacts,
    WaitingIn,
)

PROGRAM = "/job/train.py"
C10D = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
ALL_REDUCE = (("all_reduce", C10D, 2999), ("wrapper", C10D.replace("distributed_c10d", "c10d_logger"), 81))
NEW_GROUP = (("_new_group_with_tag", C10D, 5100), ("new_group", C10D, 5000))
SHUTDOWN = (("_shutdown", "/py/lib/python3.11/threading.py", 1500),)
STORE_GET = (("rendezvous", "/env/lib/python3.11/site-packages/torch/distributed/rendezvous.py", 60),)
RECEIVE = (("recv", C10D, 2500),)
QUEUE_GET = (("wait", "/py/lib/python3.11/threading.py", 320), ("get", "/py/lib/python3.11/queue.py", 171))


def stack(pid: int, line: int, *inner: tuple[str, str, int], function: str = "step") -> ThreadStack:
    """A main thread in `function` at `line` of the program, inside library calls from within outwards."""
    frames = (*inner, (function, PROGRAM, line), ("main", PROGRAM, 90), ("<module>", PROGRAM, 99))
    return ThreadStack(
        name="MainThread",
        os_thread_id=pid,
        is_active=False,
        frames=tuple(Frame(function=name, file=file, line=number) for name, file, number in frames),
    )


def helper(tid: int, line: int, *inner: tuple[str, str, int]) -> ThreadStack:
    """Another thread that runs the program's code."""
    return replace(stack(tid, line, *inner, function="serve"), name="Thread-1", os_thread_id=tid)


def entry(
    seq: int, *, line: int = 20, done: bool = True, op: str = "all_reduce", dtype: str = "float32"
) -> dict[str, Any]:
    return {
        "record_id": seq,
        "ring_number": seq,
        "pg_id": 0,
        "process_group": ["world", "world"],
        "collective_seq_id": seq,
        "profiling_name": f"live:{op}",
        "input_sizes": [[8]],
        "output_sizes": [],
        "input_dtypes": [dtype],
        "output_dtypes": [],
        "time_created_ns": seq * 200_000_000,
        "retired": done,
        "state": "completed" if done else "scheduled",
        "is_p2p": False,
        "frames": [{"name": "step", "filename": PROGRAM, "line": line}],
    }


def ring(*, num_done: int, is_inside: bool, world: int = 4, still_s: float = 6.0, **changes: Any) -> RingFacts:
    """A ring of a rank that completed `num_done` all-reduces, and sits in the next one or not."""
    entries = [entry(seq) for seq in range(1, num_done + 1)]
    if is_inside:
        entries.append(entry(num_done + 1, done=False))
    issued = num_done + is_inside
    facts = RingFacts(
        flight={
            "version": "2.10",
            "pg_config": {"world": {"desc": "world", "ranks": list(range(world))}},
            "pg_status": {"0": {"last_enqueued_collective": issued, "last_completed_collective": num_done}},
            "entries": entries,
        },
        num_calls=issued,
        num_done=num_done,
        step=num_done,
        stage=None,
        stage_name=None,
        heartbeat_age_s=0.1,
        moved_age_s=still_s,
        notice_s=4.0,
        limit_s=75.0,
        has_history=True,
        blocked_record=issued if is_inside else None,
    )
    return replace(facts, **changes)


def process(
    rank: int, *, state: ProcessState = ProcessState.SLEEPING, waiting_in: WaitingIn | None = None, ticks: int = 50
) -> ProcessFacts:
    pid = 1000 + rank
    main = ThreadFacts(tid=pid, state=state, cpu_ticks=ticks, waiting_in=waiting_in)
    is_there = state is not ProcessState.GONE
    return ProcessFacts(pid=pid, state=state, start_ticks=7, cpu_ticks=ticks, threads=(main,) if is_there else ())


def rank_snapshot(
    rank: int, thread: ThreadStack | None, facts: RingFacts | None, *others: ThreadStack, **changes: Any
) -> RankSnapshot:
    """A rank whose main thread is `thread`; `others` are its other threads. `changes` go to the process."""
    pid = 1000 + rank
    threads = () if thread is None else (thread, *others)
    stacks = (
        (ProcessStacks(pid=pid, threads=threads, path=f"process {pid}", source=StackSource.PY_SPY),) if threads else ()
    )
    return RankSnapshot(rank=rank, host="ember", process=process(rank, **changes), stacks=stacks, ring=facts)


def waiting(rank: int, *, num_done: int = 6, world: int = 4, still_s: float = 6.0, **changes: Any) -> RankSnapshot:
    """A rank that waits in the next all-reduce at line 20."""
    pid = 1000 + rank
    facts = ring(num_done=num_done, is_inside=True, world=world, still_s=still_s)
    return rank_snapshot(rank, stack(pid, 20, *ALL_REDUCE), facts, **changes)


def snapshot(*ranks: RankSnapshot, taken_s: float = 100.0) -> Snapshot:
    return Snapshot(taken_s=taken_s, taken_unix=taken_s, ranks={r.rank: r for r in ranks}, world_size=len(ranks))


def twice(*ranks: RankSnapshot, apart_s: float = 4.0) -> tuple[Snapshot, Snapshot]:
    """Two snapshots between which nothing happened."""
    return snapshot(*ranks), snapshot(*ranks, taken_s=100.0 + apart_s)


def moment(kind: str, text: str, site: str | None = None) -> Moment:
    return Moment(kind=kind, text=text, site=site, age_s=5.0)
