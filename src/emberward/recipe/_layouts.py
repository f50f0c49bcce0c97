"""Whether a model fits a layout, and which layouts of a number of ranks it does fit."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from emberward.findings import ConfigError
from emberward.plan import BatchPlan, solve_batch
from emberward.recipe._origins import blame, cited
from emberward.recipe._recipe import LayoutConfig, Recipe, ZeroStage


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a layout is impossible: what, what would be right, the keys that disagree, and a way out."""

    what: str
    expected: str
    names: tuple[str, ...]
    next: str | None = None

    def error(self, recipe: Recipe, origins: Mapping[str, str]) -> ConfigError:
        """The reason as an error."""
        return ConfigError(
            self.what,
            code="C104",
            where=blame(origins, *self.names),
            expected=self.expected,
            found=cited(recipe, origins, *self.names),
            next=self.next,
        )


def misfits(recipe: Recipe) -> Iterator[Misfit]:
    """Every reason why the model does not fit its layout, whatever the number of ranks; none when it fits."""
    model, layout = recipe.model, recipe.layout
    if model.hidden % model.num_heads:
        yield Misfit(
            what="the heads do not divide the width",
            expected=f"model.hidden a multiple of model.num_heads, as {near_multiples(model.hidden, model.num_heads)}",
            names=("model.hidden", "model.num_heads"),
        )
    yield from _tensor_misfits(recipe)
    yield from _stage_misfits(recipe)
    yield from _schedule_misfits(recipe)
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


def _tensor_misfits(recipe: Recipe) -> Iterator[Misfit]:
    model, layout = recipe.model, recipe.layout
    sizes = {"num_heads": model.num_heads, "ffn_hidden": model.ffn_hidden, "vocab_size": model.vocab_size}
    for name, value in sizes.items():
        if value is not None and value % layout.tp:
            yield Misfit(
                what="tensor parallel cannot split the model",
                expected=f"model.{name} a multiple of layout.tp, as {near_multiples(value, layout.tp)}; "
                f"or layout.tp {near_divisors(value, layout.tp)}",
                names=(f"model.{name}", "layout.tp"),
            )
    if layout.sequence_parallel and model.seq_len % layout.tp:
        yield Misfit(
            what="sequence parallel cannot split the sequence",
            expected=f"model.seq_len a multiple of layout.tp, as {near_multiples(model.seq_len, layout.tp)}",
            names=("model.seq_len", "layout.tp", "layout.sequence_parallel"),
            next="layout.sequence_parallel=false",
        )


def _stage_misfits(recipe: Recipe) -> Iterator[Misfit]:
    model, layout = recipe.model, recipe.layout
    num_stages = layout.pp * layout.stages_per_rank
    if model.num_layers < num_stages:
        yield Misfit(
            what="there are fewer layers than pipeline stages",
            expected=f"model.num_layers at least layout.pp x layout.stages_per_rank = {num_stages}",
            names=("model.num_layers", "layout.pp", "layout.stages_per_rank"),
            next=f"layout.pp={max(1, model.num_layers // layout.stages_per_rank)}",
        )
    by_hand = layout.stage_layers
    if by_hand is not None and len(by_hand) != num_stages:
        yield Misfit(
            what="the layers are given for another number of stages",
            expected=f"layout.pp x layout.stages_per_rank = {num_stages} numbers",
            names=("layout.stage_layers", "layout.pp", "layout.stages_per_rank"),
            next="layout.stage_layers=null balances by cost",
        )
    elif by_hand is not None and sum(by_hand) != model.num_layers:
        yield Misfit(
            what="the layers of the stages are not those of the model",
            expected=f"layout.stage_layers with a sum of {model.num_layers}, not {sum(by_hand)}",
            names=("layout.stage_layers", "model.num_layers"),
            next="layout.stage_layers=null balances by cost",
        )


def _schedule_misfits(recipe: Recipe) -> Iterator[Misfit]:
    """What the built-in schedules hold (plan/_schedule.py): 1f1b one stage a rank, interleaved several."""
    names = ("schedule", "layout.stages_per_rank")
    if recipe.schedule == "1f1b" and recipe.layout.stages_per_rank > 1:
        yield Misfit(
            what="schedule 1f1b holds one stage a rank",
            expected="layout.stages_per_rank 1, or schedule interleaved",
            names=names,
            next="schedule=interleaved",
        )
    if recipe.schedule == "interleaved" and recipe.layout.stages_per_rank == 1:
        yield Misfit(
            what="schedule interleaved has nothing to interleave",
            expected="layout.stages_per_rank at least 2, or schedule 1f1b",
            names=names,
            next="layout.stages_per_rank=2",
        )


def require_layout(recipe: Recipe, origins: Mapping[str, str], *, num_ranks: int) -> None:
    """Raises ConfigError C104 unless the ranks, the layout and the model fit. dp may still be open."""
    layout = recipe.layout
    inner = layout.tp * layout.pp
    if num_ranks % inner if layout.dp is None else num_ranks != inner * layout.dp:
        raise _wrong_world(recipe, origins, num_ranks)
    for misfit in misfits(recipe):
        raise misfit.error(recipe, origins)


def _num_ranks_text(num_ranks: int) -> str:
    return f"{num_ranks} rank{'s' if num_ranks != 1 else ''}"


def _wrong_world(recipe: Recipe, origins: Mapping[str, str], num_ranks: int) -> ConfigError:
    layout = recipe.layout
    parts = [("dp", layout.dp), ("tp", layout.tp), ("pp", layout.pp)]
    names = [f"layout.{axis}" for axis, size in parts if size is not None]
    sizes = " x ".join(f"{axis} {size}" for axis, size in parts if size is not None)
    product = math.prod(size for _, size in parts if size is not None)
    near = layouts_for(recipe, num_ranks)
    texts = [f"dp {each.dp} tp {each.tp} pp {each.pp}" for each in near]
    ranks = _num_ranks_text(num_ranks)
    way_out = "" if not near else f"layout.dp={near[0].dp} layout.tp={near[0].tp} layout.pp={near[0].pp}, or "
    return ConfigError(
        f"{ranks} cannot be laid out as {sizes} = {product}",
        code="C104",
        where=blame(origins, *names),
        expected=f"{ranks} = dp x tp x pp" + (f", as {' or '.join(texts)}" if texts else ""),
        found=cited(recipe, origins, *names),
        next=way_out + (f"a multiple of {product} ranks" if layout.dp is None else _num_ranks_text(product)),
    )


def layouts_for(recipe: Recipe, num_ranks: int, *, most: int = 3) -> tuple[LayoutConfig, ...]:
    """Up to `most` layouts of `num_ranks` ranks that the recipe's model and batch fit, the nearest to its own first.

    Near is measured in doublings of dp, tp and pp; of equally near ones that with the larger dp comes first. Layers
    given by hand are kept only where they fit. Empty when none fits.
    """
    fitting: list[tuple[tuple[float, float], LayoutConfig]] = []
    for tp in _divisors(num_ranks):
        for pp in _divisors(num_ranks // tp):
            layout = replace(recipe.layout, dp=num_ranks // (tp * pp), tp=tp, pp=pp)
            if _fits(replace(recipe, layout=layout)):
                fitting.append((_distance(recipe.layout, layout), layout))
    fitting.sort(key=lambda each: each[0])
    return tuple(layout for _, layout in fitting[:most])


def _fits(recipe: Recipe) -> bool:
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
        if error.what != "the batch is not determined":
            return False
        plan = None
    if plan is not None and uneven_rounds(recipe, plan) is not None:
        return False
    return next(misfits(recipe), None) is None


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


def _divisors(number: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def near_multiples(value: int, step: int) -> str:
    """The multiples of `step` right below (when positive) and right above `value`, as a message shows them."""
    below = value // step * step
    return " or ".join(str(each) for each in (below, below + step) if each > 0)


def near_divisors(number: int, value: int) -> str:
    """The divisors of `number` right below and right above `value`, as a message shows them."""
    divisors = _divisors(number)
    below = [d for d in divisors if d < value][-1:]
    above = [d for d in divisors if d > value][:1]
    return " or ".join(map(str, below + above))
