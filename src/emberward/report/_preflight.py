"""The pre-flight page: who sits where, what each role holds and sends, how long a step should take; before a launch.

Everything here is worked out from the recipe; nothing is measured and no rank starts. `compare_first_steps` holds the
page against the run's own first steps.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from emberward.layout import Axis
from emberward.perf import (
    CLUSTERS,
    Attention,
    Cluster,
    Numerics,
    Prediction,
    Recompute,
    StepPlan,
    predict,
)
from emberward.plan import RankMemory, StepShape, Traffic, bubble_fraction, rank_memory, rank_traffic
from emberward.recipe import ComputeType, Recipe, Resolved
from emberward.report._published import slots_of
from emberward.report._run_report import layout_lines, table
from emberward.report._step_shape import decoder_of, step_shape_of

MAX_SEATS = 4096
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The page. `prediction` is None on a CPU and on hardware that the table lacks; `seats` are the first MAX_SEATS."""

    name: str
    num_ranks: int
    num_parameters: int
    seats: tuple[Seat, ...]
    roles: tuple[Role, ...]
    num_mb: int
    bubble: float
    warnings: tuple[str, ...]
    hardware: str | None
    prediction: Prediction | None
    memory_gib: float | None


def preflight(resolved: Resolved, *, hardware: str | None = None, hosts: Sequence[str] = ()) -> Preflight:
    """The page of a resolved recipe. Pure.

    `hardware` names a row of `perf.CLUSTERS`; None: a CPU, for which no time is predicted. `hosts`, when known, in the
    order of their ranks, each with an equal share of them. Raises KeyError for hardware that the table lacks.
    """
    recipe = resolved.recipe
    shape = step_shape_of(recipe)
    cluster = None if hardware is None else CLUSTERS[hardware]
    layout = recipe.layout
    bubble = bubble_fraction(num_ranks=layout.pp, num_mb=shape.schedule.num_mb, stages_per_rank=layout.stages_per_rank)
    roles = tuple(_role(shape, pp_rank) for pp_rank in range(layout.pp))
    return Preflight(
        name=recipe.name,
        num_ranks=resolved.num_ranks,
        num_parameters=shape.decoder.num_parameters(),
        seats=_seats(shape, hosts),
        roles=roles,
        num_mb=shape.schedule.num_mb,
        bubble=bubble,
        warnings=tuple(_warnings(shape, roles, bubble, cluster)),
        hardware=hardware,
        prediction=None if cluster is None else _prediction(recipe, shape, cluster),
        memory_gib=None if cluster is None else cluster.device.memory_gib,
    )


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
    )


def _warnings(shape: StepShape, roles: Sequence[Role], bubble: float, cluster: Cluster | None) -> list[str]:
    found = []
    num_mb, pp = shape.schedule.num_mb, shape.schedule.num_ranks
    if pp > 1 and num_mb < 2 * pp:
        found.append(
            f"{num_mb} micro-batches for {pp} pipeline ranks: the pipeline idles {100 * bubble:.0f}% of a step; "
            f"{2 * pp} or more are better"
        )
    if cluster is not None:
        most = max(role.memory.total_bytes for role in roles) / _GIB
        if most > cluster.device.memory_gib:
            found.append(
                f"the fullest rank needs {most:.1f} GiB, {cluster.device.name} has {cluster.device.memory_gib:g}"
            )
    return found


def _prediction(recipe: Recipe, shape: StepShape, cluster: Cluster) -> Prediction | None:
    """The predicted step; None in float32, of which the table has no rates."""
    if recipe.precision.compute is ComputeType.FP32:
        return None
    plan = StepPlan(
        tp=shape.tiling.tp,
        dp=shape.dp,
        micro_batch=shape.tiling.micro_batch,
        num_mb=shape.schedule.num_mb,
        orders=slots_of(shape.schedule),
        stage_layers=tuple(len(layers) for layers in shape.stage_layers),
        how=Numerics(
            attention=Attention.FUSED,
            recompute=Recompute.LAYER if shape.tiling.recompute else Recompute.NONE,
            sequence_parallel=shape.tiling.sequence_parallel,
        ),
        shards_parameters=shape.zero == 3,
    )
    return predict(decoder_of(recipe), cluster, plan)


# -- text and JSON ----------------------------------------------------------------------------------------------------


def _size(num_bytes: int) -> str:
    if num_bytes >= _GIB:
        return f"{num_bytes / _GIB:.2f} GiB"
    return f"{num_bytes / 2**20:.2f} MiB" if num_bytes >= 2**20 else f"{num_bytes:,} B"


def _layers_text(layers: Sequence[range]) -> str:
    return " + ".join(f"{each.start}-{each.stop - 1}" if len(each) else "none" for each in layers)


def _memory_rows(roles: Sequence[Role]) -> list[str]:
    sizes_of = ["weights", "gradients", "optimizer", "gathered", "unsharded", "activations", "buffers", "total"]
    header = ["pp", "parameters", *sizes_of, "layers"]
    rows = []
    for role in roles:
        m = role.memory
        sizes = (
            m.weight_bytes,
            m.gradient_bytes,
            m.optimizer_bytes,
            m.gathered_bytes,
            m.unsharded_gradient_bytes,
            m.activation_bytes,
            m.buffer_bytes,
            m.total_bytes,
        )
        rows.append([str(role.pp_rank), f"{m.num_parameters:,}", *map(_size, sizes), _layers_text(role.layers)])
    return table(header, rows)


def _traffic_rows(roles: Sequence[Role]) -> list[str]:
    rows = [
        [str(role.pp_rank), row.group, f"{row.num_calls:,}", _size(row.payload_bytes), _size(row.sent_bytes), row.kind]
        for role in roles
        for row in role.traffic
    ]
    return table(["pp", "group", "calls", "payload", "sent", "by"], rows)


def _prediction_lines(page: Preflight) -> list[str]:
    if page.hardware is None:
        return ["step time   not predicted on CPU"]
    if page.prediction is None:
        return [f"step time   not predicted: {page.hardware} has no float32 rates in the table"]
    p = page.prediction
    parts = ", ".join(f"{name} {seconds:.3g}" for name, seconds in p.parts_s.items() if seconds)
    return [
        f"step time   {p.step_s:.3g} s predicted on {page.hardware}: {p.tokens_per_s:,.0f} tokens/s, "
        f"MFU {100 * p.mfu:.1f}%, {p.tflops:.1f} TFLOPs a rank",
        f"            seconds of the busiest pipeline rank: {parts}",
    ]


def preflight_text(page: Preflight) -> str:
    """The page for people: seats, memory by role (bytes of the role's first rank), bytes a step, bubble, time."""
    seats = [
        {
            "rank": seat.rank,
            "coordinates": {axis.value: at for axis, at in seat.coordinates.items()},
            "host": seat.host or "unknown",
        }
        for seat in page.seats
    ]
    lines = [f"{page.name}: {page.num_parameters:,} parameters on {page.num_ranks:,} ranks", ""]
    lines += [f"  {line}" for line in layout_lines(seats)]
    lines += ["", "  memory a rank, first rank of each pipeline rank"]
    lines += [f"  {line}" for line in _memory_rows(page.roles)]
    lines += ["", "  bytes a rank and step"]
    lines += [f"  {line}" for line in _traffic_rows(page.roles)]
    lines += ["", f"  bubble      {100 * page.bubble:.1f}% with {page.num_mb} micro-batches"]
    lines += [f"  {line}" for line in _prediction_lines(page)]
    lines += [f"  warning     {warning}" for warning in page.warnings]
    return "\n".join(lines)


def preflight_json(page: Preflight) -> dict[str, Any]:
    """The page as it stands in a command's JSON document."""
    return {
        "name": page.name,
        "num_ranks": page.num_ranks,
        "num_parameters": page.num_parameters,
        "seats": [
            {"rank": s.rank, "coordinates": {a.value: at for a, at in s.coordinates.items()}, "host": s.host}
            for s in page.seats
        ],
        "roles": [_role_json(role) for role in page.roles],
        "num_mb": page.num_mb,
        "bubble": page.bubble,
        "warnings": list(page.warnings),
        "hardware": page.hardware,
        "prediction": None if page.prediction is None else asdict(page.prediction),
        "memory_gib": page.memory_gib,
    }


def _role_json(role: Role) -> dict[str, Any]:
    memory = {key: value for key, value in asdict(role.memory).items() if key.endswith("_bytes")}
    return {
        "pp_rank": role.pp_rank,
        "num_ranks": role.num_ranks,
        "stages": list(role.memory.stages),
        "layers": [[each.start, each.stop] for each in role.layers],
        "num_parameters": role.memory.num_parameters,
        "memory": {**memory, "total_bytes": role.memory.total_bytes},
        "traffic": [
            {
                "group": row.group,
                "by": row.kind.value,
                "num_ranks": row.num_ranks,
                "num_calls": row.num_calls,
                "payload_bytes": row.payload_bytes,
                "sent_bytes": row.sent_bytes,
            }
            for row in role.traffic
        ],
    }


# -- after the first steps --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A predicted figure beside its measurement. Either is None where it is not known."""

    what: str
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1


def compare_first_steps(
    page: Preflight, steps: Sequence[Mapping[str, Any]], *, peak_bytes_by_rank: Mapping[int, int] | None = None
) -> tuple[Measured, ...]:
    """The page against the objects of ``metrics.jsonl``: median of the steps after the first, which warms up.

    `peak_bytes_by_rank` is the most memory that ranks were seen to hold; the greatest stands beside the page's
    greatest. On a CPU that is the process, Python and torch included, so that it lies above the plan.
    """
    later = list(steps)[1:] or list(steps)
    p = page.prediction
    planned = max(role.memory.total_bytes for role in page.roles)
    seen = max(peak_bytes_by_rank.values()) if peak_bytes_by_rank else None
    return (
        Measured(what="step_s", predicted=p.step_s if p else None, measured=_median(later, "step_s")),
        Measured(what="tokens_per_s", predicted=p.tokens_per_s if p else None, measured=_median(later, "tokens_per_s")),
        Measured(what="mfu", predicted=p.mfu if p else None, measured=_median(later, "mfu")),
        Measured(what="peak_bytes", predicted=float(planned), measured=None if seen is None else float(seen)),
    )


def _median(steps: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [step[key] for step in steps if isinstance(step.get(key), int | float)]
    return statistics.median(values) if values else None
