"""Executes small traces on real gloo: blocking calls on one host lane, several programs at once on disjoint ranks."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import FileStore, PrefixStore, ProcessGroupGloo

from emberward.events import (
    Collective,
    CollectiveOp,
    Group,
    Lane,
    LaneKind,
    Observer,
    Recv,
    ReduceOp,
    Send,
    Trace,
    TraceBuilder,
    from_lines,
)

HOST = Lane(kind=LaneKind.HOST)
NUMEL = 8


def groups_of(size: int) -> list[Group]:
    """The groups a program of `size` ranks may use; some overlap."""
    whole = [Group(ranks=tuple(range(size)))]
    if size < 4:
        return [*whole, Group(ranks=tuple(range(size)), index=1)]
    return [*whole, Group(ranks=(0, 1, 2)), Group(ranks=(1, 2, 3)), Group(ranks=(0, 3))]


def random_host_program(seed: int, size: int) -> Trace:
    """A program of blocking all-reduces, sends and receives; every second seed has one fault planted.

    One kind and size of collective a group: what gloo does when kinds or sizes differ (abort, or nothing at all) says
    nothing about waiting.
    """
    rng = random.Random(seed)
    bodies: dict[int, list[Any]] = {rank: [] for rank in range(size)}
    for _ in range(rng.randint(4, 10)):
        if rng.random() < 0.5:
            group = rng.choice(groups_of(size))
            for rank in group.ranks:
                bodies[rank].append(
                    Collective(
                        op=CollectiveOp.ALL_REDUCE, group=group, dtype="float32", numel=NUMEL, reduce_op=ReduceOp.SUM
                    )
                )
        else:
            source, target = rng.sample(range(size), 2)
            tag = rng.randrange(2)
            bodies[source].append(Send(peer=target, group=groups_of(size)[0], tag=tag, dtype="float32", numel=NUMEL))
            bodies[target].append(Recv(peer=source, group=groups_of(size)[0], tag=tag, dtype="float32", numel=NUMEL))
    if seed % 2:
        _harm(rng, bodies)
    builder = TraceBuilder(world_size=size, observer=Observer.DRY_RUN)
    for rank, items in bodies.items():
        builder.observe(rank)
        for body in items:
            builder.add(rank, HOST, body)
    return builder.build()


def _harm(rng: random.Random, bodies: dict[int, list[Any]]) -> None:
    """Swaps two neighbours, drops a call or repeats one, on one rank."""
    rank = max(bodies, key=lambda each: (len(bodies[each]) > 1, rng.random()))
    items = bodies[rank]
    at = rng.randrange(len(items) - 1)
    match rng.choice(["swap", "swap", "drop", "repeat"]):
        case "swap":
            items[at], items[at + 1] = items[at + 1], items[at]
        case "drop":
            del items[at]
        case _:
            items.insert(at, items[at])


def replay_on_gloo(
    rank: int, world_size: int, *, folder: str, programs: list[list[str]], limit_s: float
) -> dict[int, tuple[bool, str]]:
    """Runs the programs that this rank takes part in, all at once, each in a thread: (finished, why not) by number.

    Programs are dealt to the ranks in order, and again from rank 0 when all have one.
    """
    traces = [from_lines(lines) for lines in programs]
    mine, first = [], 0
    for number, trace in enumerate(traces):
        if first + trace.world_size > world_size:
            first = 0
        if first <= rank < first + trace.world_size:
            mine.append((number, trace, rank - first))
        first += trace.world_size
    with ThreadPoolExecutor(max(len(mine), 1)) as pool:
        runs = {
            number: pool.submit(_run, trace, place, f"{folder}/program{number}", limit_s)
            for number, trace, place in mine
        }
        return {number: run.result() for number, run in runs.items()}


def _run(trace: Trace, rank: int, path: str, limit_s: float) -> tuple[bool, str]:
    store = FileStore(path, trace.world_size)
    handles: dict[Group, ProcessGroupGloo] = {}
    for number, group in enumerate(groups_of(trace.world_size)):
        if rank in group.ranks:
            # The meeting has time enough on a busy machine; the limit is that of the calls.
            prefix = PrefixStore(f"group{number}", store)
            handle = ProcessGroupGloo(prefix, group.ranks.index(rank), len(group.ranks), timedelta(seconds=60))
            handle._set_default_timeout(timedelta(seconds=limit_s))
            handles[group] = handle
    meeting = handles[groups_of(trace.world_size)[0]]
    meeting.barrier().wait(timedelta(seconds=60))
    ends_s = time.monotonic() + limit_s
    for event in trace.events[rank]:
        try:
            _call(event.body, handles, timedelta(seconds=max(ends_s - time.monotonic(), 0.1)))
        except RuntimeError as error:
            return False, str(error)
    return True, ""


def _call(body: Any, handles: dict[Group, ProcessGroupGloo], left: timedelta) -> None:
    data = torch.ones(NUMEL)
    handle = handles[body.group]
    match body:
        case Collective():
            work = handle.allreduce([data])
        case Send():
            work = handle.send([data], body.group.ranks.index(body.peer), body.tag)
        case _:
            work = handle.recv([data], body.group.ranks.index(body.peer), body.tag)
    if not work.wait(left):
        raise RuntimeError("timed out")
