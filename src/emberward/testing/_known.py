"""Known disasters as small traces, each with the twin that passes.

Reconstructions: the order of calls is that of the report, the model around it is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

from emberward.events import (
    Acquire,
    Barrier,
    Collective,
    CollectiveOp,
    Compute,
    Event,
    Group,
    HostSync,
    Lane,
    LaneKind,
    Observer,
    Phase,
    Recv,
    ReduceOp,
    Release,
    Send,
    Site,
    Stage,
    StoreSet,
    StoreWait,
    SyncKind,
    Trace,
    TraceBuilder,
)
from emberward.findings import Cause

HOST = Lane(kind=LaneKind.HOST)
FORWARD = Lane(kind=LaneKind.STREAM, index=0, label="forward")
BACKWARD = Lane(kind=LaneKind.STREAM, index=1, label="backward")
BUFFER = Lane(kind=LaneKind.STREAM, index=2, label="buffer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A disaster: what it is known as, the trace that shows it, its twin, and what a judge must say."""

    name: str
    source: str
    broken: Callable[[], Trace]
    fixed: Callable[[], Trace]
    code: str
    cause: Cause
    culprit_ranks: tuple[int, ...] = ()


def _at(line: int) -> Site:
    return Site(file="train.py", line=line)


def _all_reduce(group: Group, tensor: str, numel: int = 1024) -> Collective:
    return Collective(
        op=CollectiveOp.ALL_REDUCE,
        group=group,
        dtype="float32",
        numel=numel,
        reduce_op=ReduceOp.SUM,
        tensor=tensor,
    )


def oneflow_swin(*, is_buffer_on_forward: bool, num_micro_batches: int = 4, repeat_credit: int = 1) -> Trace:
    """Stage 0 of Swin 2x2x2 with gradient accumulation: ranks 0 and 1, a forward and a backward lane each.

    nccl-1998 and nccl-2108 have a communicator for each lane. The backward's source buffer of a micro-batch lies on the
    forward lane when `is_buffer_on_forward`: on rank 0 behind the next-but-one forward's nccl-1998, on rank 1 in front
    of it, since nothing fixes its place there. The repeat of forward k >= 2 takes the register that backward k - 1
    gives back; the first forward uses the one that the variable fills. The repeat stands behind nccl-1998 on rank 0 and
    in front of it on rank 1: the data orders neither. Source: OneFlow-Inc/libai#232.
    """
    builder = TraceBuilder(2, Observer.PLAN)
    builder.set_credit("repeat", repeat_credit)
    forward_group = Group(ranks=(0, 1), index=0, label="stage0.forward")
    backward_group = Group(ranks=(0, 1), index=1, label="stage0.backward")
    for rank in (0, 1):
        forwards: list[Event] = []
        for mb in range(num_micro_batches):
            forward = Phase(step=0, micro_batch=mb, stage=Stage.FORWARD)
            if is_buffer_on_forward and rank == 1 and mb >= 2:
                _swin_backward(builder, rank, mb - 2, forwards, backward_group, is_buffer_on_forward)
            acquire, reduce = Acquire(credit="repeat"), _all_reduce(forward_group, "nccl-1998")
            if mb >= 1 and rank == 1:
                builder.add(rank, FORWARD, acquire, phase=forward, site=Site(file="swin.py", line=12))
            forwards.append(builder.add(rank, FORWARD, reduce, phase=forward, site=Site(file="swin.py", line=14)))
            if mb >= 1 and rank == 0:
                builder.add(rank, FORWARD, acquire, phase=forward, site=Site(file="swin.py", line=12))
            if mb >= 2 and (rank == 0 or not is_buffer_on_forward):
                _swin_backward(builder, rank, mb - 2, forwards, backward_group, is_buffer_on_forward)
        for mb in range(max(0, num_micro_batches - 2), num_micro_batches):
            _swin_backward(builder, rank, mb, forwards, backward_group, is_buffer_on_forward)
    return builder.build()


def _swin_backward(
    builder: TraceBuilder, rank: int, mb: int, forwards: list[Event], group: Group, is_buffer_on_forward: bool
) -> None:
    phase = Phase(step=0, micro_batch=mb, stage=Stage.BACKWARD)
    lane = FORWARD if is_buffer_on_forward else BUFFER
    name = Compute(name="backward source buffer")
    buffer = builder.add(rank, lane, name, after=[forwards[mb].ref], phase=phase, site=Site(file="swin.py", line=20))
    body = _all_reduce(group, "nccl-2108")
    builder.add(rank, BACKWARD, body, after=[buffer.ref], phase=phase, site=Site(file="swin.py", line=21))
    builder.add(rank, BACKWARD, Compute(name="gather_nd-326_grad"), phase=phase, site=Site(file="swin.py", line=22))
    builder.add(rank, BACKWARD, Release(credit="repeat"), phase=phase, site=Site(file="swin.py", line=22))


def boxing_zeros_edge(*, has_tensor: bool) -> Trace:
    """A Broadcast to Partial boxing: the nearest rank gets the value, the zeros of the other wait on an edge.

    The edge to the zeros named no tensor. Source: OneFlow NaiveB2PSubTskGphBuilder before PR #8052.
    """
    table = "model.layers.3.blocks.1.attn.relative_position_bias_table"
    phase = Phase(name=f"System-GradientAccumulation-VariableRepeat-{table}-500 to kBoxingZeros")
    builder = TraceBuilder(2, Observer.PLAN)
    tensor = table if has_tensor else None
    builder.add(0, FORWARD, Send(peer=1, dtype="float32", numel=1014, tensor=tensor), phase=phase)
    builder.add(1, FORWARD, Recv(peer=0, dtype="float32", numel=1014, tensor=table), phase=phase)
    return builder.build()


def lazy_communicator(*, is_made_at_start: bool) -> Trace:
    """Rank 1's first use of a communicator pulls its id from the store; rank 0 sets the id only at its own first use.

    Source: seed stack of OneFlow's CreateNcclComm in GrpcCtrlClient::PullKV (libai#232).
    """
    builder = TraceBuilder(2, Observer.DRY_RUN)
    first = Group(ranks=(0, 1), index=0, label="forward")
    second = Group(ranks=(0, 1), index=1, label="backward")
    key = "nccl id of backward"
    if is_made_at_start:
        builder.add(0, HOST, StoreSet(key=key), site=_at(3))
        builder.add(1, HOST, StoreWait(key=key), site=_at(4))
    builder.add(0, HOST, _all_reduce(first, "activation"), site=_at(10))
    if not is_made_at_start:
        builder.add(0, HOST, StoreSet(key=key), site=_at(20))
        builder.add(1, HOST, StoreWait(key=key), site=_at(20))
    builder.add(0, HOST, _all_reduce(second, "gradient"), site=_at(21))
    order = (first, second) if is_made_at_start else (second, first)
    for group in order:
        name = "activation" if group is first else "gradient"
        builder.add(1, HOST, _all_reduce(group, name), site=_at(10 if group is first else 21))
    return builder.build()


def launch_queue(*, num_kernels: int, capacity: int = 1024) -> Trace:
    """Rank 0 launches `num_kernels` behind a collective and then one more that rank 1 needs first.

    A device's launch queue holds `capacity` kernels; a full one turns an asynchronous launch into a synchronous one.
    Source: the 1,024 limit of libai#232.
    """
    builder = TraceBuilder(2, Observer.DRY_RUN)
    builder.set_credit("launch queue", capacity)
    first = Group(ranks=(0, 1), index=0, label="forward")
    second = Group(ranks=(0, 1), index=1, label="backward")
    reduce_first, reduce_second = _all_reduce(first, "activation"), _all_reduce(second, "gradient")
    launch = Acquire(credit="launch queue")
    issued = builder.add(0, HOST, Compute(name="launch all_reduce"), site=_at(10))
    builder.add(0, FORWARD, reduce_first, after=[issued.ref], site=_at(10))
    for _ in range(num_kernels):
        issued = builder.add(0, HOST, launch, site=_at(11))
        builder.add(0, FORWARD, Compute(name="kernel"), after=[issued.ref], site=_at(11))
        builder.add(0, FORWARD, Release(credit="launch queue"), site=_at(11))
    issued = builder.add(0, HOST, Compute(name="launch all_reduce"), site=_at(12))
    builder.add(0, BACKWARD, reduce_second, after=[issued.ref], site=_at(12))
    builder.add(1, BACKWARD, reduce_second, site=_at(12))
    issued = builder.add(1, HOST, HostSync(kind=SyncKind.ITEM, lane=BACKWARD), site=_at(13))
    builder.add(1, FORWARD, reduce_first, after=[issued.ref], site=_at(10))
    return builder.build()


def _stage(mb: int) -> Phase:
    return Phase(step=0, micro_batch=mb, stage=Stage.FORWARD)


def deferred_recv(*, is_fixed: bool) -> Trace:
    """Two ranks with two stages each: both send before they receive. Source: pytorch#172668, PR #178815."""
    builder = TraceBuilder(2, Observer.DRY_RUN)
    send_f1, recv_f1 = Send(peer=1, tag=0, tensor="stage 0 out"), Recv(peer=0, tag=0, tensor="stage 0 out")
    send_f0, recv_f0 = Send(peer=0, tag=1, tensor="stage 1 out"), Recv(peer=1, tag=1, tensor="stage 1 out")
    builder.add(0, HOST, send_f1, phase=_stage(0), site=_at(30))
    builder.add(1, HOST, recv_f1, phase=_stage(0), site=_at(31))
    builder.add(0, HOST, send_f1, phase=_stage(1), site=_at(30))
    builder.add(0, HOST, recv_f0, phase=_stage(0), site=_at(31))
    calls: list[tuple[Send | Recv, int, int]] = [(send_f0, 0, 30), (recv_f1, 1, 31)]
    for body, mb, line in reversed(calls) if is_fixed else calls:
        builder.add(1, HOST, body, phase=_stage(mb), site=_at(line))
    return builder.build()


def tolist_before_all_to_all(*, is_fixed: bool, num_ranks: int = 8) -> Trace:
    """Most ranks start an all-to-all and then wait; two call `.tolist()` on a reduced value before it.

    Source: torchrec PR #4149 (62 of 64 ranks against ranks 6 and 7).
    """
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    ranks = tuple(range(num_ranks))
    exchange = Collective(
        op=CollectiveOp.ALL_TO_ALL, group=Group(ranks=ranks, index=0, label="a2a"), dtype="float32", numel=64
    )
    reduce = _all_reduce(Group(ranks=ranks, index=1, label="metrics"), "lengths", 1)
    lanes = (Lane(kind=LaneKind.COMM, index=0, label="a2a"), Lane(kind=LaneKind.COMM, index=1, label="metrics"))
    for rank in ranks:
        early = rank in (6, 7) and not is_fixed
        calls: list[tuple[Lane, Collective, int]] = [(lanes[0], exchange, 41), (lanes[1], reduce, 40)]
        for lane, body, line in reversed(calls) if early else calls:
            issued = builder.add(rank, HOST, Compute(name=f"launch {body.op.value}"), site=_at(line))
            builder.add(rank, lane, body, after=[issued.ref], site=_at(line))
            builder.add(rank, HOST, HostSync(kind=SyncKind.ITEM, lane=lane), site=_at(line))
    return builder.build()


def ring(*, is_fixed: bool, num_ranks: int = 4) -> Trace:
    """Every stage sends to the next and then receives from the one before, unbatched. Source: Megatron-LM#5100."""
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    for rank in range(num_ranks):
        send = Send(peer=(rank + 1) % num_ranks, tag=0, tensor="activation", dtype="bfloat16", numel=1024)
        recv = Recv(peer=(rank - 1) % num_ranks, tag=0, tensor="activation", dtype="bfloat16", numel=1024)
        order: tuple[Send | Recv, ...] = (recv, send) if is_fixed and rank % 2 else (send, recv)
        for body in order:
            builder.add(rank, HOST, body, phase=_stage(0), site=_at(50 if isinstance(body, Send) else 51))
    return builder.build()


def unused_expert(*, is_fixed: bool, num_ranks: int = 4) -> Trace:
    """ZeRO-3: a rank whose tokens reach no token of an expert never gathers it. Source: DeepSpeed#5066, PR #5008."""
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    group = Group(ranks=tuple(range(num_ranks)), label="dp")
    for rank in range(num_ranks):
        for expert in range(3):
            if expert == 1 and rank == 2 and not is_fixed:
                continue
            numel = 100 + expert
            gather = Collective(op=CollectiveOp.ALL_GATHER, group=group, dtype="bfloat16", numel=numel)
            builder.add(rank, HOST, gather, site=_at(60 + expert))
        builder.add(rank, HOST, _all_reduce(group, "norm", 1), site=_at(70))
    return builder.build()


def rank_0_saves(*, is_fixed: bool, num_ranks: int = 4) -> Trace:
    """`if rank == 0: save()` where saving gathers. Source: DeepSpeed#2993, transformers#10596."""
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    group = Group(ranks=tuple(range(num_ranks)), label="dp")
    phase = Phase(step=9, stage=Stage.SAVE)
    for rank in range(num_ranks):
        if rank == 0 or is_fixed:
            gather = Collective(op=CollectiveOp.ALL_GATHER, group=group, dtype="float32", numel=64)
            builder.add(rank, HOST, gather, site=_at(80), phase=phase)
        builder.add(rank, HOST, Barrier(group=group), site=_at(81), phase=phase)
    return builder.build()


def uneven_data(*, is_fixed: bool, num_ranks: int = 4) -> Trace:
    """DDP whose rank 1 has one batch less. Source: pytorch#141069, accelerate#157."""
    builder = TraceBuilder(num_ranks, Observer.DRY_RUN)
    group = Group(ranks=tuple(range(num_ranks)), label="dp")
    for rank in range(num_ranks):
        for step in range(2 if rank == 1 and not is_fixed else 3):
            for bucket in range(2):
                phase = Phase(step=step, micro_batch=0, stage=Stage.BACKWARD)
                reduce = _all_reduce(group, f"bucket {bucket}", 256)
                builder.add(rank, HOST, reduce, site=_at(90), phase=phase)
    return builder.build()


def opposite_orders(*, is_fixed: bool) -> Trace:
    """Three ranks, three overlapping groups of two, each rank starting with another one. Source: nccl#522."""
    builder = TraceBuilder(3, Observer.DRY_RUN)
    pairs = {name: Group(ranks=ranks, label=name) for name, ranks in (("ab", (0, 1)), ("bc", (1, 2)), ("ac", (0, 2)))}
    orders = (("ab", "ac"), ("bc", "ab"), ("ac", "bc"))
    fixed = (("ab", "ac"), ("ab", "bc"), ("ac", "bc"))
    for rank, order in enumerate(fixed if is_fixed else orders):
        for name in order:
            builder.add(rank, HOST, _all_reduce(pairs[name], name), site=_at(100 + rank))
    return builder.build()


def known_disasters() -> tuple[Known, ...]:
    """Every reconstruction of this file with its twin."""
    cycle, p2p, credit = Cause.CYCLE_COLLECTIVE, Cause.CYCLE_P2P, Cause.CYCLE_CREDIT

    def known(
        name: str,
        source: str,
        broken: Callable[[], Trace],
        fixed: Callable[[], Trace],
        code: str,
        cause: Cause,
        *culprits: int,
    ) -> Known:
        return Known(
            name=name, source=source, broken=broken, fixed=fixed, code=code, cause=cause, culprit_ranks=culprits
        )

    return (
        known(
            "buffer on the forward lane",
            "libai#232",
            lambda: oneflow_swin(is_buffer_on_forward=True),
            lambda: oneflow_swin(is_buffer_on_forward=False),
            "M104",
            credit,
        ),
        known(
            "edge without tensor",
            "OneFlow PR #8052",
            lambda: boxing_zeros_edge(has_tensor=False),
            lambda: boxing_zeros_edge(has_tensor=True),
            "M106",
            Cause.EDGE_WITHOUT_TENSOR,
            0,
        ),
        known(
            "lazy communicator",
            "libai#232",
            lambda: lazy_communicator(is_made_at_start=False),
            lambda: lazy_communicator(is_made_at_start=True),
            "M104",
            cycle,
        ),
        known(
            "full launch queue",
            "libai#232",
            lambda: launch_queue(num_kernels=1025),
            lambda: launch_queue(num_kernels=1024),
            "M104",
            credit,
        ),
        known(
            "deferred receive",
            "pytorch#172668",
            lambda: deferred_recv(is_fixed=False),
            lambda: deferred_recv(is_fixed=True),
            "M104",
            p2p,
        ),
        known(
            "tolist before all-to-all",
            "torchrec#4149",
            lambda: tolist_before_all_to_all(is_fixed=False),
            lambda: tolist_before_all_to_all(is_fixed=True),
            "M104",
            cycle,
        ),
        known(
            "ring of sends",
            "Megatron-LM#5100",
            lambda: ring(is_fixed=False),
            lambda: ring(is_fixed=True),
            "M104",
            p2p,
        ),
        known(
            "unused expert under ZeRO-3",
            "DeepSpeed#5066",
            lambda: unused_expert(is_fixed=False),
            lambda: unused_expert(is_fixed=True),
            "M103",
            Cause.SKIPPED_COLLECTIVE,
            2,
        ),
        known(
            "save on rank 0 only",
            "DeepSpeed#2993",
            lambda: rank_0_saves(is_fixed=False),
            lambda: rank_0_saves(is_fixed=True),
            "M103",
            Cause.EXTRA_COLLECTIVE,
            0,
        ),
        known(
            "uneven data under DDP",
            "pytorch#141069",
            lambda: uneven_data(is_fixed=False),
            lambda: uneven_data(is_fixed=True),
            "M103",
            Cause.UNEVEN_DATA,
            1,
        ),
        known(
            "opposite orders on overlapping groups",
            "nccl#522",
            lambda: opposite_orders(is_fixed=False),
            lambda: opposite_orders(is_fixed=True),
            "M104",
            cycle,
        ),
    )
