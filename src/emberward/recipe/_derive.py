"""What a resolved recipe implies, as values of the lower rooms: mesh, schedule, stages."""

from pathlib import Path

from emberward.families import model_of
from emberward.findings import ConfigError
from emberward.layout import Axis, Mesh
from emberward.plan import SCHEDULES, BackwardLane, Launches, Schedule, TwoLanes, balance, schedule_from_csv
from emberward.recipe._recipe import Backend, Device, LayoutConfig, Recipe, ZeroStage


def mesh_of(layout: LayoutConfig) -> Mesh:
    """The mesh of a layout whose dp is known. ZeRO-0 keeps whole copies: all of dp replicates, nothing is sharded."""
    assert layout.dp is not None, "the layout is not resolved"
    replicate = layout.dp if layout.zero is ZeroStage.NONE else layout.dp_replicate
    return Mesh(
        axes=(
            (Axis.PP, layout.pp),
            (Axis.DP_REPLICATE, replicate),
            (Axis.DP_SHARD, layout.dp // replicate),
            (Axis.TP, layout.tp),
        )
    )


def launches_of(recipe: Recipe) -> Launches:
    """How the ranks of a recipe launch transfers: in one order wherever NCCL may carry them, early over gloo.

    A device that is found only at the start (AUTO) counts as one, so that what is proved is what runs.
    """
    is_gloo = recipe.device is Device.CPU or recipe.backend is Backend.GLOO
    return Launches.EARLY if is_gloo else Launches.ONE_ORDER


def devices_needed(backend: Backend, num_ranks: int) -> int:
    """How many CUDA devices so many ranks of a host need: over gloo they may share them."""
    return 1 if backend is Backend.GLOO else num_ranks


def gathered_bytes_of(recipe: Recipe) -> int:
    """Bytes of parameters that a rank may hold gathered under ZeRO-3."""
    return int(recipe.layout.gathered_gb * 1e9)


def has_backward_lane(recipe: Recipe) -> bool:
    """Whether the first stage's backwards run beside its forwards."""
    return recipe.layout.backward_lane is not BackwardLane.SHARED


def two_lanes_of(recipe: Recipe, *, pp_rank: int, tp_rank: int) -> TwoLanes | None:
    """The two lanes of a rank that has them; None where one thread runs forwards and backwards."""
    if not has_backward_lane(recipe) or pp_rank != 0:
        return None
    return TwoLanes(
        is_fed_by_forwards=recipe.layout.backward_lane is BackwardLane.FED_BY_FORWARDS, is_odd=tp_rank % 2 == 1
    )


def schedule_of(recipe: Recipe, num_mb: int) -> Schedule:
    """The schedule of a step of `num_mb` micro-batches. Raises ConfigError C104 or C109 when it does not fit."""
    layout = recipe.layout
    make = SCHEDULES.get(recipe.schedule)
    if make is not None:
        return make(layout.pp, num_mb, layout.stages_per_rank)
    path = Path(recipe.schedule)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"schedule {recipe.schedule!r} is neither a known schedule nor a readable CSV",
            code="C109",
            where="schedule",
            expected=f"one of {', '.join(SCHEDULES)}, or the path of a CSV",
            found=error.strerror,
        ) from error
    schedule = schedule_from_csv(text, name=path.name)
    found = (schedule.num_ranks, schedule.num_stages, schedule.num_mb)
    expected = (layout.pp, layout.pp * layout.stages_per_rank, num_mb)
    if found != expected:
        raise ConfigError(
            f"schedule {path.name} does not fit the layout",
            code="C109",
            where=str(path),
            expected="{} pipeline ranks, {} stages, {} micro-batches".format(*expected),
            found="{} pipeline ranks, {} stages, {} micro-batches".format(*found),
        )
    return schedule


def stage_map_of(recipe: Recipe) -> Schedule:
    """The schedule of a whole step, whose stage map every other program of the run shares."""
    assert recipe.batch.accumulation is not None, "the recipe is not resolved"
    return schedule_of(recipe, recipe.batch.accumulation)


def ends_of(recipe: Recipe) -> tuple[int, int]:
    """The pipeline ranks of the first and the last stage."""
    ranks = stage_map_of(recipe).stage_ranks
    return ranks[0], ranks[-1]


def layers_of_stages(recipe: Recipe) -> tuple[range, ...]:
    """The layers of each stage, ascending: by hand where the recipe says so, else balanced by the blocks' costs.

    The model's first block lies with the first layer and its last block with the last.
    """
    layout = recipe.layout
    counts = layout.stage_layers
    if counts is None:
        model = model_of(recipe.model)
        costs = [block.cost for block in model.layers]
        costs[0] += model.first.cost
        costs[-1] += model.last.cost
        counts = balance(costs, layout.pp * layout.stages_per_rank)
    ranges, first = [], 0
    for count in counts:
        ranges.append(range(first, first + count))
        first += count
    return tuple(ranges)
