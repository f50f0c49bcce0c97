"""Whether a model fits a layout, and which layouts of a number of ranks it does fit."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from emberward.families import Misfit, divisors, find_family, near_divisors, near_multiples
from emberward.findings import ConfigError
from emberward.plan import STAGES_PER_RANK, BatchPlan, solve_batch
from emberward.recipe._derive import has_backward_lane
from emberward.recipe._origins import blame, cited, value_text
from emberward.recipe._recipe import Backend, ComputeType, Device, LayoutConfig, Recipe, ZeroStage
from emberward.recipe._schema import leaves

_MAX_TP = 512
"""Most ranks of a tp group that are tried where other numbers of ranks are offered."""


def _error(misfit: Misfit, recipe: Recipe, origins: Mapping[str, str]) -> ConfigError:
    return ConfigError(
        misfit.what,
        code="C104",
        where=blame(origins, *misfit.names),
        expected=misfit.expected,
        found=cited(recipe, origins, *misfit.names),
        next=misfit.next,
    )


def misfits(recipe: Recipe) -> Iterator[Misfit]:
    """Every reason why the model does not fit its layout, whatever the number of ranks; none when it fits."""
    layout = recipe.layout
    yield from find_family(recipe.model.family).misfits(recipe.model, tp=layout.tp)
    yield from _position_misfits(recipe)
    yield from _stage_misfits(recipe)
    yield from _schedule_misfits(recipe)
    yield from _lane_misfits(recipe)
    yield from _backend_misfits(recipe)
    if layout.dp_replicate > 1 and layout.zero is ZeroStage.NONE:
        yield Misfit(
            what="HSDP has nothing to shard",
            expected="layout.zero 1, 2 or 3 with layout.dp_replicate above 1",
            names=("layout.dp_replicate", "layout.zero"),
            next="layout.zero=1, or layout.dp_replicate=1",
        )
    if layout.dp is not None and layout.dp % layout.dp_replicate:
        yield Misfit(
            what="the replicas do not divide data parallel",
            expected=f"layout.dp_replicate a divisor of layout.dp, as {near_divisors(layout.dp, layout.dp_replicate)}",
            names=("layout.dp", "layout.dp_replicate"),
        )


def _position_misfits(recipe: Recipe) -> Iterator[Misfit]:
    model, layout = recipe.model, recipe.layout
    family = find_family(model.family)
    if layout.sequence_parallel and not family.splits_positions(model, tp=1):
        yield Misfit(
            what="sequence parallel cannot split the sequence",
            expected=f"layout.sequence_parallel false: family {family.name} keeps positions together",
            names=("model.family", "layout.sequence_parallel"),
            next="layout.sequence_parallel=false",
        )
    elif layout.sequence_parallel and not family.splits_positions(model, tp=layout.tp):
        yield Misfit(
            what="sequence parallel cannot split the sequence",
            expected=f"model.seq_len a multiple of layout.tp, as {near_multiples(model.seq_len, layout.tp)}",
            names=("model.seq_len", "layout.tp", "layout.sequence_parallel"),
            next="layout.sequence_parallel=false",
        )


def _stage_misfits(recipe: Recipe) -> Iterator[Misfit]:
    layout = recipe.layout
    key, num_layers = find_family(recipe.model.family).layers_of(recipe.model)
    num_stages = layout.pp * layout.stages_per_rank
    if num_layers < num_stages:
        yield Misfit(
            what="there are fewer layers than pipeline stages",
            expected=f"model.{key} at least layout.pp x layout.stages_per_rank = {num_stages}",
            names=(f"model.{key}", "layout.pp", "layout.stages_per_rank"),
            next=_fewer_stages(layout, max(1, num_layers // layout.stages_per_rank)),
        )
    by_hand = layout.stage_layers
    if by_hand is not None and len(by_hand) != num_stages:
        yield Misfit(
            what="the layers are given for another number of stages",
            expected=f"layout.pp x layout.stages_per_rank = {num_stages} numbers",
            names=("layout.stage_layers", "layout.pp", "layout.stages_per_rank"),
            next="layout.stage_layers=null balances by cost",
        )
    elif by_hand is not None and sum(by_hand) != num_layers:
        yield Misfit(
            what="the layers of the stages are not those of the model",
            expected=f"layout.stage_layers with a sum of {num_layers}, not {sum(by_hand)}",
            names=("layout.stage_layers", f"model.{key}"),
            next="layout.stage_layers=null balances by cost",
        )


def _fewer_stages(layout: LayoutConfig, pp: int) -> str:
    """The overrides that set `pp`; where dp is given, dp takes the ranks that pp leaves."""
    while layout.dp is not None and layout.dp * layout.pp % pp:
        pp -= 1
    dp = "" if layout.dp is None else f"layout.dp={layout.dp * layout.pp // pp} "
    return f"{dp}layout.pp={pp}"


def _schedule_misfits(recipe: Recipe) -> Iterator[Misfit]:
    """What the built-in schedules hold (plan/_orders.py): some one number of stages a rank, interleaved several."""
    names = ("schedule", "layout.stages_per_rank")
    needed = STAGES_PER_RANK.get(recipe.schedule)
    if needed is not None and recipe.layout.stages_per_rank != needed:
        other = "interleaved" if needed == 1 else "zb_h1"
        yield Misfit(
            what=f"schedule {recipe.schedule} holds {'one stage' if needed == 1 else 'two stages'} a rank",
            expected=f"layout.stages_per_rank {needed}, or schedule {other}",
            names=names,
            next=f"schedule={other}" if needed == 1 else f"layout.stages_per_rank={needed}",
        )
    if recipe.schedule == "interleaved" and recipe.layout.stages_per_rank == 1:
        yield Misfit(
            what="schedule interleaved has nothing to interleave",
            expected="layout.stages_per_rank at least 2, or schedule 1f1b",
            names=names,
            next="layout.stages_per_rank=2",
        )


def _lane_misfits(recipe: Recipe) -> Iterator[Misfit]:
    """What a backward lane cannot run beside the forwards: `engine/_lanes.py` [Note: two threads on one stage]."""
    layout = recipe.layout
    if not has_backward_lane(recipe):
        return
    needs = {
        "layout.pp": (layout.pp > 1, "at least 2"),
        "schedule": (recipe.schedule == "1f1b", "1f1b"),
        "layout.stages_per_rank": (layout.stages_per_rank == 1, "1"),
        "layout.zero": (layout.zero is ZeroStage.NONE, "0"),
        "precision.compute": (recipe.precision.compute is ComputeType.FP32, "fp32"),
        "model.recompute": (not recipe.model.recompute, "false"),
        "device": (recipe.device is Device.CPU, "cpu"),
    }
    for name, (holds, expected) in needs.items():
        if not holds:
            yield Misfit(
                what="a backward lane cannot run beside these forwards",
                expected=f"{name} {expected} with layout.backward_lane {layout.backward_lane.value}",
                names=("layout.backward_lane", name),
                next="layout.backward_lane=shared",
            )


def _backend_misfits(recipe: Recipe) -> Iterator[Misfit]:
    """NCCL carries tensors of CUDA devices alone; with ``device=auto`` a machine without them would be the CPU's."""
    if recipe.backend is Backend.NCCL and recipe.device is not Device.CUDA:
        yield Misfit(
            what="NCCL carries calls between CUDA devices alone",
            expected="device cuda with backend nccl",
            names=("backend", "device"),
            next="backend=auto, which takes NCCL on CUDA and gloo on the CPU, or device=cuda",
        )


def require_fit(recipe: Recipe, origins: Mapping[str, str]) -> None:
    """Raises ConfigError C104 unless the model fits the layout, whatever the number of ranks. dp may still be open."""
    for misfit in misfits(recipe):
        raise _error(misfit, recipe, origins)


def is_world(layout: LayoutConfig, num_ranks: int) -> bool:
    """Whether the layout has so many ranks; with dp open, whether some dp gives them."""
    inner = layout.tp * layout.pp
    return num_ranks % inner == 0 if layout.dp is None else num_ranks == inner * layout.dp


def wrong_world(recipe: Recipe, origins: Mapping[str, str], num_ranks: int) -> ConfigError:
    """The error for a layout that has another number of ranks. What it proposes fits the model and the batch."""
    layout = recipe.layout
    parts = [("dp", layout.dp), ("tp", layout.tp), ("pp", layout.pp)]
    names = [f"layout.{axis}" for axis, size in parts if size is not None]
    sizes = " x ".join(f"{axis} {size}" for axis, size in parts if size is not None)
    product = math.prod(size for _, size in parts if size is not None)
    near = layouts_for(recipe, num_ranks)
    ranks = num_ranks_text(num_ranks)
    below = num_ranks // product
    own = [below, below + 1] if layout.dp is None else [layout.dp]
    own_ranks = [layout.tp * layout.pp * dp for dp in own if dp > 0 and _fits(_with(recipe, dp, layout.tp, layout.pp))]
    ways = [f"layout.dp={near[0].dp} layout.tp={near[0].tp} layout.pp={near[0].pp}"] if near else []
    ways += [f"{' or '.join(map(str, own_ranks))} rank{'s' if own_ranks != [1] else ''}"] if own_ranks else []
    return ConfigError(
        f"{ranks} cannot be laid out as {sizes} = {product}",
        code="C104",
        where=blame(origins, *names),
        expected=f"{ranks} = dp x tp x pp" + (f", as {' or '.join(map(sizes_text, near))}" if near else ""),
        found=cited(recipe, origins, *names),
        next=", or ".join(ways) or None,
    )


def num_ranks_text(num_ranks: int) -> str:
    """The number as a person reads it: ``1 rank``, ``2 ranks``."""
    return f"{num_ranks} rank{'s' if num_ranks != 1 else ''}"


def sizes_text(layout: LayoutConfig) -> str:
    """The sizes of a layout: ``dp 2 tp 1 pp 3``."""
    return f"dp {layout.dp} tp {layout.tp} pp {layout.pp}"


def layouts_for(recipe: Recipe, num_ranks: int, *, most: int = 3) -> tuple[LayoutConfig, ...]:
    """Up to `most` layouts of `num_ranks` ranks that the recipe's model and batch fit, the nearest to its own first.

    Near is measured in doublings of dp, tp and pp; of equally near ones that with the larger dp comes first. Layers
    given by hand are kept only where they fit. Empty when none fits.
    """
    fitting = (layout for layout in _of_size(recipe, num_ranks) if _fits(replace(recipe, layout=layout)))
    return tuple(islice(fitting, most))


def least_misfit(recipe: Recipe, num_ranks: int) -> LayoutConfig:
    """The layout of `num_ranks` ranks with the fewest misfits, of equal ones the nearest to the recipe's own."""
    return min(_of_size(recipe, num_ranks), key=lambda layout: sum(1 for _ in misfits(replace(recipe, layout=layout))))


def misfit_reasons(recipe: Recipe, num_ranks: int, *, most: int = 3) -> list[str]:
    """Why each of the nearest layouts of `num_ranks` ranks does not fit, in one line each."""
    reasons = ((layout, _why_not(replace(recipe, layout=layout))) for layout in _of_size(recipe, num_ranks))
    return [f"{sizes_text(layout)}: {why}" for layout, why in islice(reasons, most) if why is not None]


def ranks_for(recipe: Recipe, num_ranks: int) -> tuple[int, ...]:
    """The nearest numbers of ranks below and above `num_ranks` for which some layout fits; empty when none does.

    The family says which tp fit, pp is at most the number of layers, and dp divides the global batch where there is
    one: so few numbers are tried, however many ranks there are.
    """
    batch, family = recipe.batch, find_family(recipe.model.family)
    most_pp = max(1, family.layers_of(recipe.model)[1] // recipe.layout.stages_per_rank)
    sizes: set[int] = set()
    for tp in (size for size in range(1, _MAX_TP + 1) if not any(family.misfits(recipe.model, tp=size))):
        for pp in range(1, most_pp + 1):
            inner = tp * pp * recipe.layout.dp_replicate
            near = (num_ranks // inner, num_ranks // inner + 1)
            dps = near if batch.global_batch is None else divisors(batch.global_batch)
            unit = inner if batch.global_batch is None else tp * pp
            sizes |= {unit * dp for dp in dps if dp > 0}
    below = (size for size in sorted(sizes, reverse=True) if size < num_ranks)
    above = (size for size in sorted(sizes) if size > num_ranks)
    found = (next((size for size in side if layouts_for(recipe, size, most=1)), None) for side in (below, above))
    return tuple(size for size in found if size is not None)


def _of_size(recipe: Recipe, num_ranks: int) -> list[LayoutConfig]:
    """Every layout of so many ranks, the nearest to the recipe's own first."""
    found = [
        replace(recipe.layout, dp=num_ranks // (tp * pp), tp=tp, pp=pp)
        for tp in divisors(num_ranks)
        for pp in divisors(num_ranks // tp)
    ]
    return sorted(found, key=lambda layout: _distance(recipe.layout, layout))


def _with(recipe: Recipe, dp: int, tp: int, pp: int) -> Recipe:
    return replace(recipe, layout=replace(recipe.layout, dp=dp, tp=tp, pp=pp))


def _fits(recipe: Recipe) -> bool:
    return _why_not(recipe) is None


def _why_not(recipe: Recipe) -> str | None:
    """The first reason why the model or the batch does not fit the layout; None when both do."""
    for misfit in misfits(recipe):
        values = leaves(recipe)
        return f"{misfit.what} ({', '.join(f'{name}={value_text(values[name])}' for name in misfit.names)})"
    batch = recipe.batch
    try:
        plan = solve_batch(
            global_batch=batch.global_batch,
            micro_batch=batch.micro_batch,
            accumulation=batch.accumulation,
            dp=recipe.layout.dp,
            ramp_up=batch.ramp_up,
        )
    except ConfigError as error:
        # A recipe without any batch is wrong for every layout alike: that is not for the layout to say.
        return None if error.what == "the batch is not determined" else f"{error.what} ({error.found})"
    uneven = uneven_rounds(recipe, plan)
    return None if uneven is None else f"accumulation {uneven} is no multiple of layout.pp={recipe.layout.pp}"


def uneven_rounds(recipe: Recipe, batch: BatchPlan) -> int | None:
    """The first accumulation of the run that the interleaved schedule cannot run, as it is no multiple of pp.

    None when there is none, or another schedule runs. See plan/_schedule.py, `interleaved`.
    """
    if recipe.schedule != "interleaved":
        return None
    counts = (phase.global_batch // (batch.micro_batch * batch.dp) for phase in batch.phases())
    return next((count for count in counts if count % recipe.layout.pp), None)


def _distance(one: LayoutConfig, other: LayoutConfig) -> tuple[float, float]:
    pairs = [(one.tp, other.tp), (one.pp, other.pp)]
    if one.dp is not None and other.dp is not None:
        pairs.append((one.dp, other.dp))
    return sum(abs(math.log2(a / b)) for a, b in pairs), -(other.dp or 1)
