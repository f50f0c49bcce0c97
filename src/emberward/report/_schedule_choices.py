"""Which schedules a recipe could take: idle time and memory of each, and the one that idles least where it fits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from emberward.families import model_of
from emberward.findings import ConfigError
from emberward.layout import Axis
from emberward.plan import SCHEDULES, bubble_of, rank_memory
from emberward.recipe import Recipe
from emberward.report._step_shape import step_shape_of

MAX_ACTIONS = 10_000
"""Of a schedule over all ranks with two stages each, so that the comparison takes about a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleChoice:
    """A schedule for the recipe's layout and batch. `bubble` is the idle share of a step with equal stages.

    `memory_bytes` is the fullest rank's, without buffers of what travels between stages. `fits`: None where the
    device's memory is not known.
    """

    name: str
    stages_per_rank: int
    bubble: float
    memory_bytes: int
    fits: bool | None
    is_chosen: bool

    @property
    def override(self) -> str:
        """What asks for it on the command line."""
        return f"schedule={self.name} layout.stages_per_rank={self.stages_per_rank}"


def schedule_choices(recipe: Recipe, *, memory_bytes: float | None) -> tuple[ScheduleChoice, ...]:
    """The recipe's own schedule and each built-in one that its layers and batch allow, the least idle first.

    They are tried with 1 and 2 stages a rank and as many as now. Pure; empty without a pipeline, and for schedules of
    more than MAX_ACTIONS.

    `memory_bytes` is what a device has.
    """
    layout, batch = recipe.layout, recipe.batch
    assert batch.accumulation is not None, "the recipe is not resolved"
    if layout.pp == 1 or 6 * layout.pp * batch.accumulation > MAX_ACTIONS:
        return ()
    chunks = sorted({1, 2, layout.stages_per_rank})
    found = [_choice(each, recipe, memory_bytes) for each in _candidates(recipe, chunks)]
    kept = [each for each in found if each is not None]
    return tuple(sorted(kept, key=lambda each: (round(each.bubble, 6), each.memory_bytes, not each.is_chosen)))


def _candidates(recipe: Recipe, chunks: Sequence[int]) -> Iterator[Recipe]:
    yield recipe
    num_layers = len(model_of(recipe.model).layers)
    for name in SCHEDULES:
        for count in chunks:
            is_own = (name, count) == (recipe.schedule, recipe.layout.stages_per_rank)
            # Several stages a rank are what interleaved is for; with one it is 1f1b.
            if is_own or (name == "interleaved" and count == 1) or recipe.layout.pp * count > num_layers:
                continue
            by_hand = recipe.layout.stage_layers if count == recipe.layout.stages_per_rank else None
            layout = replace(recipe.layout, stages_per_rank=count, stage_layers=by_hand)
            yield replace(recipe, schedule=name, layout=layout)


def _choice(candidate: Recipe, recipe: Recipe, memory_bytes: float | None) -> ScheduleChoice | None:
    """None where the schedule does not go with these micro-batches or stages."""
    try:
        shape = step_shape_of(candidate)
    except ConfigError:
        return None
    ranks = [shape.mesh.rank_at({Axis.PP: pp_rank}) for pp_rank in range(shape.schedule.num_ranks)]
    most = max(rank_memory(shape, rank, has_buffers=False).total_bytes for rank in ranks)
    return ScheduleChoice(
        name=candidate.schedule,
        stages_per_rank=candidate.layout.stages_per_rank,
        bubble=bubble_of(shape.schedule),
        memory_bytes=most,
        fits=None if memory_bytes is None else most <= memory_bytes,
        is_chosen=candidate is recipe,
    )


def best_choice(choices: Sequence[ScheduleChoice]) -> ScheduleChoice | None:
    """The one that idles least of those that fit, of equal ones that with the least memory; None where none fits."""
    return next((each for each in choices if each.fits is not False), None)
