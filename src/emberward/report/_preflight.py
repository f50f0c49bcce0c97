"""The pre-flight page: who sits where, what each role holds and sends, how long a step should take; before a launch.

Everything here is worked out from the recipe; nothing is measured and no rank starts. `_first_steps.py` holds the page
against what was recorded and measured.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from emberward.findings import Cause, Certainty, Finding, Severity, require_code
from emberward.layout import AttentionScores, Axis, Model
from emberward.perf import (
    CLUSTERS,
    Attention,
    Cluster,
    Numerics,
    Prediction,
    Recompute,
    Stack,
    StepPlan,
    predict,
)
from emberward.plan import (
    Buffers,
    RankMemory,
    Span,
    StepShape,
    Traffic,
    bubble_of,
    frees_parameters,
    gathered_units,
    rank_buffers,
    rank_memory,
    rank_traffic,
    spans_of,
)
from emberward.recipe import ComputeType, Recipe, Resolved
from emberward.report._published_run import slots_of
from emberward.report._schedule_choices import ScheduleChoice, schedule_choices
from emberward.report._step_shape import step_shape_of

MAX_SEATS = 4096
MAX_SPANS = 4096
"""Computes of a step that a picture of the schedule can show; of a longer one there is none."""
_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a rank sits: its coordinates on each axis, and its host where hosts are known."""

    rank: int
    coordinates: Mapping[Axis, int]
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What the ranks of one pipeline rank hold and send; the first of them stands for all."""

    pp_rank: int
    num_ranks: int
    layers: tuple[range, ...]
    memory: RankMemory
    traffic: tuple[Traffic, ...]
    buffers: tuple[Buffers, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The page. `prediction` is None on a CPU and on hardware that the table lacks; `seats` are the first MAX_SEATS.

    `attention` says in words how the first layer's is computed. `spans`: the computes of a step by the schedule's own
    time; empty without a pipeline, and for more than MAX_SPANS.
    """

    name: str
    num_ranks: int
    num_parameters: int
    axes: tuple[tuple[Axis, int], ...]
    seats: tuple[Seat, ...]
    roles: tuple[Role, ...]
    num_mb: int
    bubble: float
    findings: tuple[Finding, ...]
    hardware: str | None
    prediction: Prediction | None
    memory_gib: float | None
    choices: tuple[ScheduleChoice, ...] = ()
    attention: str = ""
    schedule: str = ""
    spans: tuple[Span, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the findings say."""
        return tuple(finding.message for finding in self.findings)


def preflight(resolved: Resolved, *, hardware: str | None = None, hosts: Sequence[str] = ()) -> Preflight:
    """The page of a resolved recipe. Pure.

    `hardware` names a row of `perf.CLUSTERS`; None: a CPU, for which no time is predicted. `hosts`, when known, in the
    order of their ranks, each with an equal share of them. Raises KeyError for hardware that the table lacks.
    """
    recipe = resolved.recipe
    shape = step_shape_of(recipe)
    cluster = None if hardware is None else CLUSTERS[hardware]
    layout = recipe.layout
    bubble = bubble_of(shape.schedule)
    roles = tuple(_role(shape, pp_rank) for pp_rank in range(layout.pp))
    return Preflight(
        name=recipe.name,
        num_ranks=resolved.num_ranks,
        num_parameters=shape.model.num_parameters,
        axes=shape.mesh.axes,
        seats=_seats(shape, hosts),
        roles=roles,
        num_mb=shape.schedule.num_mb,
        bubble=bubble,
        findings=tuple(_warnings(shape, roles, bubble, cluster)),
        hardware=hardware,
        prediction=None if cluster is None else _prediction(recipe, shape, cluster),
        memory_gib=None if cluster is None else cluster.device.memory_gib,
        choices=schedule_choices(recipe, memory_bytes=None if cluster is None else cluster.device.memory_gib * _GIB),
        attention=_attention_text(shape.model),
        schedule=shape.schedule.name,
        spans=_spans(shape),
    )


def _spans(shape: StepShape) -> tuple[Span, ...]:
    schedule = shape.schedule
    is_drawn = schedule.num_ranks > 1 and sum(map(len, schedule.orders)) <= MAX_SPANS
    return spans_of(schedule) if is_drawn else ()


def _seats(shape: StepShape, hosts: Sequence[str]) -> tuple[Seat, ...]:
    size = shape.mesh.size
    each = -(-size // len(hosts)) if hosts else 0
    return tuple(
        Seat(rank=rank, coordinates=shape.mesh.coordinates(rank), host=hosts[rank // each] if hosts else None)
        for rank in range(min(size, MAX_SEATS))
    )


def _role(shape: StepShape, pp_rank: int) -> Role:
    rank = shape.mesh.rank_at({Axis.PP: pp_rank})
    memory = rank_memory(shape, rank)
    return Role(
        pp_rank=pp_rank,
        num_ranks=shape.mesh.size // shape.schedule.num_ranks,
        layers=tuple(shape.stage_layers[stage] for stage in memory.stages),
        memory=memory,
        traffic=rank_traffic(shape, rank),
        buffers=rank_buffers(shape.schedule, pp_rank, shape.launches),
    )


def _warnings(shape: StepShape, roles: Sequence[Role], bubble: float, cluster: Cluster | None) -> Iterator[Finding]:
    num_mb, pp = shape.schedule.num_mb, shape.schedule.num_ranks
    if pp > 1 and num_mb < 2 * pp:
        yield _warning(
            "C114",
            f"{num_mb} micro-batch{'es' if num_mb > 1 else ''} for {pp} pipeline ranks: "
            f"the pipeline idles {100 * bubble:.0f}% of a step; {2 * pp} or more are better",
            next=f"batch.accumulation={2 * pp} batch.global_batch=null, or fewer pipeline ranks",
        )
    if cluster is not None:
        fullest = max(roles, key=lambda role: role.memory.total_bytes)
        most = fullest.memory.total_bytes / _GIB
        if most > cluster.device.memory_gib:
            yield _warning(
                "C115",
                f"the fullest rank needs {most:.1f} GiB, {cluster.device.name} has {cluster.device.memory_gib:g}",
                next="more tp or pp ranks, layout.zero=3 with layout.gathered_gb=0, model.recompute=true "
                "or a smaller batch.micro_batch",
            )


def _warning(code: str, message: str, *, next: str) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARNING,
        kind=require_code(code).kind,
        cause=Cause.NONE,
        certainty=Certainty.INFERRED,
        message=message,
        next=next,
    )


def _prediction(recipe: Recipe, shape: StepShape, cluster: Cluster) -> Prediction | None:
    """The predicted step; None in float32, of which the table has no rates."""
    if recipe.precision.compute is ComputeType.FP32:
        return None
    return predict(shape.model, cluster, step_plan_of(shape))


def step_plan_of(shape: StepShape) -> StepPlan:
    """How this engine runs the step, as predictions take it: gradients are summed over dp in float32."""
    return StepPlan(
        tp=shape.tiling.tp,
        dp=shape.dp,
        micro_batch=shape.tiling.micro_batch,
        num_mb=shape.schedule.num_mb,
        orders=slots_of(shape.schedule),
        stage_layers=tuple(len(layers) for layers in shape.stage_layers),
        how=Numerics(
            attention=_attention_of(shape.model),
            stack=Stack.EAGER,
            has_dropout=_has_dropout(shape.model),
            recompute=Recompute.LAYER if shape.tiling.recompute else Recompute.NONE,
            sequence_parallel=shape.tiling.sequence_parallel,
        ),
        shards_parameters=frees_parameters(shape),
        scatters_each=shape.zero >= 2,
        shard_ranks=shape.mesh.axis_size(Axis.DP_SHARD),
        gathered_shares=_gathered_shares(shape) if frees_parameters(shape) else None,
        # The engine's AdamW is fused and divides by the clipping's factor itself: 30 and the gradients' norm.
        optimizer_bytes=34.0,
    )


def _gathered_shares(shape: StepShape) -> tuple[float, ...]:
    """Of each stage's parameters the share that a pass gathers under ZeRO-3, the mean over its rank's step."""
    of_ranks = []
    for pp_rank in range(shape.schedule.num_ranks):
        units = gathered_units(shape, shape.schedule.stages_of(pp_rank), shape.mesh.rank_at({Axis.PP: pp_rank}))
        gathered, held = sum(numel * times for numel, times in units), sum(numel for numel, _ in units)
        of_ranks.append(gathered / (2 * shape.schedule.num_mb * held))
    return tuple(of_ranks[shape.schedule.rank_of(stage)] for stage in range(shape.schedule.num_stages))


def _attention_of(model: Model) -> Attention:
    """The kernel of the engine's attention: one that reads a mask where one is added, none with dropout."""
    scores = [each for each in model.layers[0].operations if isinstance(each, AttentionScores)]
    if any(each.has_dropout for each in scores):
        return Attention.SCORES_IN_MEMORY
    return Attention.DENSE_MASK if any(each.has_mask for each in scores) else Attention.FLASH_2


def _attention_text(model: Model) -> str:
    """How the first layer's attention is computed."""
    for each in model.layers[0].operations:
        if not isinstance(each, AttentionScores):
            continue
        size = f"{each.positions:,} x {each.positions:,}"
        if each.has_dropout:
            return f"scores of {size} in memory: no fused kernel draws dropout by counter"
        if each.has_mask:
            return f"one kernel with a mask of {size}"
        added = f", ALiBi in {each.added_width} columns of q and k" if each.added_width else ""
        return f"one {'causal ' if each.is_causal else ''}kernel without a mask{added}"
    return "none"


def _has_dropout(model: Model) -> bool:
    """Whether attention has dropout."""
    return any(isinstance(each, AttentionScores) and each.has_dropout for each in model.layers[0].operations)
