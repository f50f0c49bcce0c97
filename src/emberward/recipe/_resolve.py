"""A loaded recipe with everything worked out that can be, and every check made that needs no rank."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from emberward.families import ModelConfig, find_family, model_of, near_multiples
from emberward.findings import ConfigError
from emberward.plan import SCHEDULES, BatchPlan, bubble_of, require_micro_batches, solve_batch
from emberward.recipe._debug import parse_debug, require_debug
from emberward.recipe._derive import schedule_of
from emberward.recipe._draft import Draft
from emberward.recipe._layouts import is_world, layouts_for, require_fit, uneven_rounds, wrong_world
from emberward.recipe._load import Loaded
from emberward.recipe._origins import WORKED_OUT, blame, cited, value_text
from emberward.recipe._ranges import out_of_range, require_ranges
from emberward.recipe._recipe import Recipe
from emberward.recipe._schema import leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A recipe that can run, the origin of each key, its batch sums, and notes that a person should read.

    Worked-out values have origins that begin with ``worked out from``. Keys that are still None are off.
    """

    recipe: Recipe
    origins: Mapping[str, str]
    batch: BatchPlan
    notes: tuple[str, ...]
    num_ranks: int
    tokenizer_size: int


def resolve(loaded: Loaded, *, num_ranks: int, tokenizer_size: int) -> Resolved:
    """The recipe for `num_ranks` ranks and a tokenizer of `tokenizer_size` ids, ready to run.

    Resolving what was resolved changes nothing. Raises ConfigError C103, C104, C105 or C109.
    """
    draft = Draft.of(loaded.recipe, loaded.origins)
    require_ranges(draft.recipe(), draft.origins)
    if num_ranks < 1:
        raise ConfigError(
            "the number of ranks is out of range",
            code="C103",
            where="--ranks",
            expected="at least 1",
            found=f"{num_ranks}",
        )
    _require_own_keys(draft.recipe(), draft.origins)
    _work_out_model(draft, tokenizer_size)
    _work_out_dp(draft, num_ranks)
    batch = _work_out_batch(draft, loaded.name)
    _work_out_end(draft, batch, loaded.name)
    recipe = draft.recipe()
    _require_schedule(recipe, draft.origins, batch)
    if not is_world(recipe.layout, num_ranks):
        raise wrong_world(recipe, draft.origins, num_ranks)
    if recipe.debug:
        names = model_of(recipe.model).shapes
        require_debug([parse_debug(text) for text in recipe.debug], names, num_ranks=num_ranks)
    return Resolved(
        recipe=recipe,
        origins=dict(draft.origins),
        batch=batch,
        notes=tuple(_notes(recipe, batch, draft.origins)),
        num_ranks=num_ranks,
        tokenizer_size=tokenizer_size,
    )


def _fill(draft: Draft, name: str, value: object, reason: str) -> None:
    """Sets a key that nobody set."""
    if draft.values[name] is None:
        draft.put(name, value, f"{WORKED_OUT}{reason}")


def _work_out_model(draft: Draft, tokenizer_size: int) -> None:
    recipe = draft.recipe()
    model, tp, family = recipe.model, recipe.layout.tp, find_family(recipe.model.family)
    worked_out = {each.name: each for each in family.work_out(model, tokenizer_size=tokenizer_size, tp=tp)}
    for each in worked_out.values():
        _fill(draft, f"model.{each.name}", each.value, each.reason)
    reason = f"model.seq_len {model.seq_len} and layout.tp {tp}"
    if not family.splits_positions(model, tp=1):
        reason = f"family {family.name} keeps positions together"
    _fill(draft, "layout.sequence_parallel", recipe.splits_sequence, reason)
    vocab_size = draft.recipe().model.vocab_size
    if "vocab_size" in family.keys and vocab_size is not None and vocab_size < tokenizer_size:
        raise out_of_range(
            "model.vocab_size",
            draft.origins,
            expected=f"at least the tokenizer's {tokenizer_size}",
            found=f"{vocab_size}",
            next=f"model.vocab_size={worked_out['vocab_size'].value}",
        )


def _require_own_keys(recipe: Recipe, origins: Mapping[str, str]) -> None:
    """Raises ConfigError C103 for a key of the model that is set and that its family does not read."""
    family = find_family(recipe.model.family)
    known = {f"model.{name}" for name in (*family.keys, "family", "recompute")}
    for name, value in leaves(recipe.model, "model").items():
        if ".".join(name.split(".")[:2]) not in known and value != leaves(ModelConfig(), "model")[name]:
            raise out_of_range(
                name,
                origins,
                expected=f"a key of family {family.name}: {', '.join(sorted(family.keys))}",
                found=value_text(value),
                next=f"leave {name} out",
            )


def _work_out_dp(draft: Draft, num_ranks: int) -> None:
    """Fills dp. Where no layout of the ranks fits, the ranks may not be the cause: what else is wrong is said first."""
    recipe = draft.recipe()
    is_own = is_world(recipe.layout, num_ranks)
    if not is_own and layouts_for(recipe, num_ranks, most=1):
        raise wrong_world(recipe, draft.origins, num_ranks)
    require_fit(recipe, draft.origins)
    if recipe.layout.dp is None and not is_own:
        raise wrong_world(recipe, draft.origins, num_ranks)
    tp, pp = recipe.layout.tp, recipe.layout.pp
    _fill(draft, "layout.dp", num_ranks // (tp * pp), f"{num_ranks} ranks / (tp {tp} x pp {pp})")
    require_fit(draft.recipe(), draft.origins)


def _work_out_batch(draft: Draft, recipe_name: str) -> BatchPlan:
    recipe = draft.recipe()
    batch, dp = recipe.batch, recipe.layout.dp
    given = {
        "batch.global_batch": batch.global_batch,
        "batch.micro_batch": batch.micro_batch,
        "batch.accumulation": batch.accumulation,
    }
    names = [name for name, value in given.items() if value is not None]
    try:
        plan = solve_batch(
            global_batch=batch.global_batch,
            micro_batch=batch.micro_batch,
            accumulation=batch.accumulation,
            dp=dp,
            ramp_up=batch.ramp_up,
        )
    except ConfigError as error:
        if batch.ramp_up is not None and "ramp_up" in (error.expected or ""):
            names = ["batch.ramp_up.start", "batch.ramp_up.increment", *names]
        raise ConfigError(
            error.what,
            code=error.code,
            where=blame(draft.origins, *names) if names else recipe_name,
            expected=error.expected,
            found=f"{error.found}; {cited(recipe, draft.origins, *names, 'layout.dp')}",
            next=error.next,
        ) from error
    reason = plan.explain().splitlines()[0]
    _fill(draft, "batch.global_batch", plan.global_batch, reason)
    _fill(draft, "batch.micro_batch", plan.micro_batch, reason)
    _fill(draft, "batch.accumulation", plan.accumulation, reason)
    _fill(draft, "evaluation.micro_batch", plan.micro_batch, "batch.micro_batch")
    return plan


def _work_out_end(draft: Draft, batch: BatchPlan, recipe_name: str) -> None:
    recipe = draft.recipe()
    steps, train_samples = recipe.steps, recipe.train_samples
    if steps is None and train_samples is None:
        raise ConfigError(
            "the run has no end",
            code="C103",
            where=recipe_name,
            expected="steps or train_samples",
            found="neither",
            next="steps=100",
        )
    if train_samples is not None:
        _fill(draft, "steps", batch.steps_for(train_samples), f"train_samples {train_samples:,}")
    elif steps is not None:
        _fill(draft, "train_samples", batch.samples_after(steps), f"steps {steps:,}")
    recipe = draft.recipe()
    assert recipe.steps is not None and recipe.train_samples is not None
    fitting = batch.steps_for(recipe.train_samples)
    where = blame(draft.origins, "steps", "train_samples")
    if fitting == 0:
        raise ConfigError(
            "the run is shorter than a step",
            code="C105",
            where=draft.origins["train_samples"],
            expected=f"train_samples at least {batch.samples_after(1):,}, the first step's global batch",
            found=f"train_samples {recipe.train_samples:,}",
            next=f"train_samples={batch.samples_after(1)}",
        )
    if fitting != recipe.steps:
        raise ConfigError(
            "steps and train_samples disagree",
            code="C105",
            where=where,
            expected=f"steps {fitting:,}, or train_samples {batch.samples_after(recipe.steps):,}, or one of them alone",
            found=cited(recipe, draft.origins, "steps", "train_samples"),
            next="train_samples=null" if draft.origins["steps"] == where else "steps=null",
        )
    end = batch.samples_after(recipe.steps)
    _fill(draft, "optim.decay_samples", end, f"the end of the run after {recipe.steps:,} steps")


def _require_schedule(recipe: Recipe, origins: Mapping[str, str], batch: BatchPlan) -> None:
    """Raises ConfigError C105 or C109 unless the schedule can run every batch of the run."""
    pp = recipe.layout.pp
    uneven = uneven_rounds(recipe, batch)
    if uneven is not None:
        unit = batch.micro_batch * batch.dp
        global_batch = uneven * unit
        raise ConfigError(
            "schedule interleaved needs whole rounds of micro-batches",
            code="C105",
            where=blame(origins, "schedule", "batch.global_batch", "batch.accumulation", "layout.pp"),
            expected=f"accumulation a multiple of layout.pp={pp}, as {near_multiples(uneven, pp)}: "
            f"global_batch {near_multiples(global_batch, unit * pp)}",
            found=f"accumulation {uneven} = global_batch {global_batch} / "
            f"(micro_batch {batch.micro_batch} x dp {batch.dp})",
            next=f"batch.accumulation=null batch.global_batch={(global_batch // (unit * pp) + 1) * unit * pp}",
        )
    counts = sorted({phase.global_batch // (batch.micro_batch * batch.dp) for phase in batch.phases()})
    for count in counts:
        require_micro_batches(recipe.schedule, pp, count)
    if recipe.schedule not in SCHEDULES:
        if len(counts) > 1:
            raise ConfigError(
                "a schedule from a CSV has one number of micro-batches",
                code="C105",
                where=blame(origins, "schedule", "batch.ramp_up.start"),
                expected="no ramp-up with a CSV",
                found=f"{counts[0]} to {counts[-1]} micro-batches",
                next="batch.ramp_up=null",
            )
        schedule_of(recipe, batch.accumulation)


def _notes(recipe: Recipe, batch: BatchPlan, origins: Mapping[str, str]) -> Iterator[str]:
    layout = recipe.layout
    could_split = find_family(recipe.model.family).splits_positions(recipe.model, tp=1)
    worked_out = origins["layout.sequence_parallel"].startswith(WORKED_OUT)
    if not recipe.splits_sequence and could_split and worked_out:
        yield (
            f"sequence parallelism is off: layout.tp={layout.tp} does not divide model.seq_len={recipe.model.seq_len}; "
            "the results are the same, activations take more memory"
        )
    fewest = batch.accumulation_at(0)
    if layout.pp > 1 and fewest < 2 * layout.pp:
        idle = bubble_of(schedule_of(recipe, fewest))
        yield (
            f"{fewest} micro-batch{'es' if fewest > 1 else ''} for {layout.pp} pipeline ranks: "
            f"the pipeline idles {100 * idle:.0f}% of a step; {2 * layout.pp} or more are better"
        )
    assert recipe.steps is not None and recipe.train_samples is not None
    left = recipe.train_samples - batch.samples_after(recipe.steps)
    if left:
        yield f"the last {left:,} of train_samples {recipe.train_samples:,} are left out: they do not fill a step"
    warmup_samples, decay_samples = recipe.optim.warmup_samples, recipe.optim.decay_samples
    if decay_samples is not None and warmup_samples >= decay_samples:
        yield (
            f"the learning rate only rises: optim.warmup_samples {warmup_samples:,} are not below "
            f"optim.decay_samples {decay_samples:,}"
        )
    if not recipe.evaluation.sets and recipe.data.held_out == 0:
        yield "nothing to evaluate on: data.held_out is 0 and evaluation.sets is empty"
