"""Large 3-D parallel steps by role, and faults planted in one rank of them."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import pairwise

from emberward.events import (
    Body,
    Collective,
    CollectiveOp,
    Compute,
    Event,
    Group,
    Lane,
    Observer,
    ReduceOp,
    Ref,
    Site,
    Stage,
    Trace,
    Wait,
)
from emberward.layout import Axis, Mesh
from emberward.match import RoleTrace
from emberward.plan import HOST, Pipe, interleaved, pipeline_program

NUM_ALL_REDUCES = 2
"""All-reduces over tp in one forward or backward of one layer (Shoeybi et al. 2019, figure 4)."""


class PlantedFault(StrEnum):
    """One thing that goes wrong in one rank."""

    SKIPPED_CALL = "skipped_call"
    SWAPPED_CALLS = "swapped_calls"
    DIFFERENT_SIZE = "different_size"
    DEAD_RANK = "dead_rank"


def mesh_roles(*, pp: int, dp: int, tp: int, num_mb: int, stages_per_rank: int = 2) -> RoleTrace:
    """One training step of an interleaved 1F1B pipeline with tensor and data parallelism: one role for each stage.

    A forward or backward all-reduces over tp; the step ends with a reduce-scatter and an all-gather over dp, and the
    norm over all ranks.
    """
    mesh = Mesh(axes=((Axis.PP, pp), (Axis.DP_SHARD, dp), (Axis.TP, tp)))
    schedule = interleaved(pp, num_mb, stages_per_rank)
    programs: dict[int, tuple[Event, ...]] = {}
    for stage in range(pp):
        rank = mesh.rank_at({Axis.PP: stage})
        pipe = Pipe.over(mesh.group(rank, Axis.PP), dtype="bfloat16", shapes=((4096, 512),) * (schedule.num_stages - 1))
        dp_group = Group(ranks=mesh.group(rank, Axis.DP_SHARD), label="dp")
        world = Group(ranks=tuple(mesh.ranks), label="world")
        tail: Sequence[Body] = (
            Collective(op=CollectiveOp.REDUCE_SCATTER, group=dp_group, dtype="float32", numel=1 << 20),
            Collective(
                op=CollectiveOp.ALL_REDUCE, group=world, dtype="float32", numel=1, reduce_op=ReduceOp.SUM, tensor="norm"
            ),
            Collective(op=CollectiveOp.ALL_GATHER, group=dp_group, dtype="bfloat16", numel=1 << 20),
        )
        tp_group = Group(ranks=mesh.group(rank, Axis.TP), label="tp")
        programs[rank] = _with_tensor_parallel(pipeline_program(schedule, pipe, stage, tail=tail), tp_group)
    owners = [mesh.rank_at({Axis.PP: rank // (dp * tp)}) for rank in mesh.ranks]
    return RoleTrace(mesh=mesh, programs=programs, representative_of=tuple(owners), observer=Observer.DRY_RUN)


def _with_tensor_parallel(program: Sequence[Event], group: Group) -> tuple[Event, ...]:
    """The program with all-reduces over `group` after each forward and backward."""
    reduce = Collective(
        op=CollectiveOp.ALL_REDUCE, group=group, dtype="bfloat16", numel=4096 * 512, reduce_op=ReduceOp.SUM
    )
    moved: dict[tuple[Lane, int], Ref] = {}
    counts: dict[Lane, int] = {}
    found: list[Event] = []

    def put(event: Event, body: Body, line: int) -> None:
        position = counts.get(event.lane, 0)
        counts[event.lane] = position + 1
        after = tuple(moved[(ref.lane, ref.position)] for ref in event.after)
        moved[(event.lane, event.position)] = Ref(lane=event.lane, position=position)
        site = Site(file="model.py", line=line)
        found.append(replace(event, position=position, body=body, after=after, site=site))

    for event in program:
        body = event.body
        if isinstance(body, Wait):
            body = Wait(on=moved[(body.on.lane, body.on.position)])
        put(event, body, 10)
        if isinstance(event.body, Compute) and event.lane == HOST:
            for k in range(NUM_ALL_REDUCES if event.phase.stage in (Stage.FORWARD, Stage.BACKWARD) else 0):
                put(event, reduce, 20 + k)
    return tuple(found)


def plant(roles: RoleTrace, rank: int, fault: PlantedFault, *, at: int = 0) -> RoleTrace:
    """The roles with `fault` in `rank` alone, at its `at`-th call of tp; a swap moves the last one behind the norm.

    A dead rank makes neither that call nor any after it.
    """
    events = list(roles.program_of(rank))
    calls = [
        i for i, event in enumerate(events) if isinstance(event.body, Collective) and event.body.group.label == "tp"
    ]
    index = calls[at]
    body = events[index].body
    match fault:
        case PlantedFault.SKIPPED_CALL:
            events[index] = replace(events[index], body=Compute(name="skipped"))
        case PlantedFault.DIFFERENT_SIZE:
            if not isinstance(body, Collective):
                raise TypeError(f"{body} has no size")
            events[index] = replace(events[index], body=replace(body, numel=3))
        case PlantedFault.DEAD_RANK:
            del events[index:]
        case PlantedFault.SWAPPED_CALLS:
            norm = next(i for i, event in enumerate(events) if _is_norm(event))
            host = [i for i in range(calls[-1], norm + 1) if events[i].lane == HOST]
            for i, j in pairwise(host):
                _swap_bodies(events, i, j)
    return roles.with_program(rank, events)


def _is_norm(event: Event) -> bool:
    return isinstance(event.body, Collective) and event.body.tensor == "norm"


def _swap_bodies(events: list[Event], i: int, j: int) -> None:
    """Swaps what two events of one lane do."""
    a, b = events[i], events[j]
    events[i] = replace(a, body=b.body, phase=b.phase, site=b.site)
    events[j] = replace(b, body=a.body, phase=a.phase, site=a.site)


def expanded(roles: RoleTrace) -> Trace:
    """The plain trace of every rank; only for small meshes."""
    return Trace(
        world_size=roles.mesh.size,
        events={rank: roles.program_of(rank) for rank in roles.mesh.ranks},
        observer=roles.observer,
        credits=dict(roles.credits),
        assumptions=roles.assumptions,
    )
