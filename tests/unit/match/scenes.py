"""Small traces for the tests of `match`: for each code one that shows it and a look-alike that passes."""

from emberward.events import (
    Acquire,
    Barrier,
    Body,
    Collective,
    CollectiveOp,
    Group,
    GroupCreate,
    Lane,
    LaneKind,
    Observer,
    Phase,
    Recv,
    ReduceOp,
    Ref,
    Release,
    Send,
    Site,
    Stage,
    Trace,
    TraceBuilder,
    Wait,
)

HOST = Lane(kind=LaneKind.HOST)
TP = Lane(kind=LaneKind.COMM, index=0, label="tp")
DP = Lane(kind=LaneKind.COMM, index=1, label="dp")
ALL4 = Group(ranks=(0, 1, 2, 3), label="dp")


def reduce(group: Group = ALL4, numel: int = 12, **kw) -> Collective:
    values = {"dtype": "float32", "reduce_op": ReduceOp.SUM, **kw}
    return Collective(op=CollectiveOp.ALL_REDUCE, group=group, numel=numel, **values)


def gather(group: Group = ALL4, numel: int = 12) -> Collective:
    return Collective(op=CollectiveOp.ALL_GATHER, group=group, dtype="float32", numel=numel)


def broadcast(root: int) -> Collective:
    return Collective(op=CollectiveOp.BROADCAST, group=ALL4, dtype="float32", numel=12, root=root)


def trace(
    programs: dict[int, list[Body]],
    *,
    world_size: int | None = None,
    observer: Observer = Observer.DRY_RUN,
    credits: dict[str, int] | None = None,
    phases: list[Phase] | None = None,
) -> Trace:
    """Each rank's bodies on its host lane; the k-th stands in line k + 1 of train.py."""
    builder = TraceBuilder(world_size or len(programs), observer)
    for rank, bodies in programs.items():
        builder.observe(rank)
        for k, body in enumerate(bodies):
            phase = Phase() if phases is None else phases[k]
            builder.add(rank, HOST, body, site=Site(file="train.py", line=k + 1), phase=phase)
    for name, capacity in (credits or {}).items():
        builder.set_credit(name, capacity)
    return builder.build()


def head_on(*, world_size: int = 2, a: int = 0, b: int = 1, is_fixed: bool = False, observer=Observer.DRY_RUN) -> Trace:
    """Two ranks that receive before they send, among others that wait for them in one all-reduce."""
    builder = TraceBuilder(world_size, observer)
    world = Group(ranks=tuple(range(world_size)), label="world")
    forward, backward = Phase(micro_batch=0, stage=Stage.FORWARD), Phase(micro_batch=0, stage=Stage.BACKWARD)
    for rank in range(world_size):
        if rank == a:
            calls = [(Recv(peer=b, tensor="grad"), backward), (Send(peer=b, tensor="act"), forward)]
            for k, (body, phase) in enumerate(reversed(calls) if is_fixed else calls):
                builder.add(rank, HOST, body, phase=phase, site=Site(file="recipes/tiny.py", line=41 + k))
        if rank == b:
            builder.add(
                rank, HOST, Recv(peer=a, tensor="act"), phase=forward, site=Site(file="recipes/tiny.py", line=41)
            )
            body = Send(peer=a, tensor="grad")
            builder.add(rank, HOST, body, phase=backward, site=Site(file="recipes/tiny.py", line=42))
        builder.add(rank, HOST, reduce(world), site=Site(file="recipes/tiny.py", line=50))
    return builder.build()


def two_communicators(*, is_fixed: bool, has_wait: bool = False) -> Trace:
    """Two ranks issue two asynchronous all-reduces of two groups; rank 1 the other way round unless `is_fixed`."""
    builder = TraceBuilder(2, Observer.DRY_RUN)
    tp, dp = Group(ranks=(0, 1), index=0, label="tp"), Group(ranks=(0, 1), index=1, label="dp")
    for rank in (0, 1):
        calls = [(TP, reduce(tp), 10), (DP, reduce(dp), 11)]
        after: list[Ref] = []
        for lane, body, line in calls if rank == 0 or is_fixed else reversed(calls):
            event = builder.add(rank, lane, body, after=after, site=Site(file="train.py", line=line))
            if has_wait:
                after = [builder.add(rank, HOST, Wait(on=event.ref), site=Site(file="train.py", line=line)).ref]
    return builder.build()


def wrong_and_right() -> dict[str, tuple[Trace, Trace]]:
    """For each code: a trace whose verdict carries it, and a look-alike whose verdict has no finding."""
    odd = {rank: [reduce(), gather() if rank == 2 else reduce()] for rank in range(4)}
    same = {rank: [reduce(), gather()] for rank in range(4)}
    steps = [Phase(step=k) for k in range(5)]
    short = {rank: [reduce(), reduce(), reduce(), reduce()][: 3 if rank == 2 else 4] for rank in range(4)}
    root = {rank: [broadcast(0 if rank else 1)] for rank in range(4)}
    uneven = {
        rank: [Collective(op=CollectiveOp.ALL_TO_ALL, group=ALL4, dtype="float32", numel=4 + rank)] for rank in range(4)
    }
    unmatched = {0: [Send(peer=1, tag=3), Send(peer=1, tag=3)], 1: [Recv(peer=0, tag=3), Recv(peer=0, tag=4)]}
    matched = {0: [Send(peer=1, tag=3), Send(peer=1, tag=4)], 1: [Recv(peer=0, tag=3), Recv(peer=0, tag=4)]}
    bare = {0: [Send(peer=1)], 1: [Recv(peer=0, tensor="act")]}
    lost = {0: [Wait(on=Ref(lane=TP, position=7))]}
    return {
        "M101": (trace(odd), trace(same)),
        "M102": (trace(root), trace(uneven)),
        "M103": (trace(short, phases=steps), trace({rank: [reduce()] * 4 for rank in range(4)}, phases=steps)),
        "M104": (head_on(world_size=4), head_on(world_size=4, is_fixed=True)),
        "M105": (trace(unmatched), trace(matched)),
        "M106": (trace(bare, observer=Observer.PLAN), trace(bare, observer=Observer.DRY_RUN)),
        "M107": (two_communicators(is_fixed=False), two_communicators(is_fixed=True)),
        "M108": (trace(lost), trace({0: [Acquire(credit="q"), Release(credit="q")]}, credits={"q": 1})),
    }


__all__ = ["ALL4", "DP", "HOST", "TP", "Barrier", "GroupCreate", "broadcast", "gather", "head_on", "reduce", "trace"]
