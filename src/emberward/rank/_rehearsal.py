"""A short run of the real engine and trainer that passes through every phase of a long one.

[Note: what a rehearsal covers]
Two steps with the recipe's first accumulation, evaluation of every set after the first and at the end, a save after
the first and at the end, the sample, and the end; then a second start, whose first step is not finite and is skipped,
so that its cause is searched, and which is asked to stop after it and saves.
Where a batch ramp-up has other accumulations, one step with the largest. An evaluation set is cut to at most
2 x pp micro-batches, so that the pipeline is full and drains once, and in the second start to 3 x pp: what the two
differ in is what one more round adds, for the certificate of a longer set (`emberward.sources` [Note: certificate]).
Later steps repeat these: what decides whether a phase comes is the step number and totals that all ranks share
(`_trainer.py` [Note: what ranks agree on]).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from emberward.engine import Engine, World
from emberward.events import Phase
from emberward.plan import BatchPlan
from emberward.rank._events import Enter
from emberward.rank._health import Instruments
from emberward.rank._position import Position
from emberward.rank._samples import BlankSamples
from emberward.rank._saves import Background
from emberward.rank._signals import StopRequest
from emberward.rank._trainer import RankOutcome, Trainer
from emberward.recipe import Recipe
from emberward.report import RunFolder

NUM_STEPS = 2
NUM_SAMPLE_TOKENS = 2
STOPPED = "asked to stop"
"""The part in which a step is not finite and is skipped, and one rank is asked to stop."""
EVAL_ROUNDS = 2
"""Micro-batches of an evaluation set for each pipeline rank; one more in the second start."""


class PhaseMarker:
    """Joins the trainer's phases (which evaluation set, which save) with those of the programs that run inside.

    `sink` is told of both, `begin` of the trainer's alone, with their counts.
    """

    def __init__(self, sink: Callable[[Phase], None], *, begin: Enter | None = None) -> None:
        self._sink = sink
        self._begin = begin
        self._outer = Phase()

    def enter(self, phase: Phase, count: int | None = None, /) -> None:
        """A phase of the run begins."""
        if self._begin is not None:
            self._begin(phase, count)
        self._outer = phase
        self._sink(phase)

    def inner(self, phase: Phase) -> None:
        """A phase of a program begins, inside the run's."""
        outer = self._outer
        stage = phase.stage if outer.stage is None else outer.stage
        self._sink(Phase(step=outer.step, micro_batch=phase.micro_batch, stage=stage, name=outer.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a rehearsal plays: a shortened recipe, its batches, and the number of samples of each evaluation set.

    `more_eval_samples`: those of the second start.
    """

    recipe: Recipe
    batch: BatchPlan
    eval_samples: Mapping[str, int]
    more_eval_samples: Mapping[str, int]
    last_accumulation_at: int | None
    """Consumed samples at which the largest accumulation begins; None when there is one alone."""


def script_of(recipe: Recipe, batch: BatchPlan, eval_samples: Mapping[str, int]) -> Script:
    """The rehearsal of a resolved recipe. See [Note: what a rehearsal covers]."""
    short = replace(
        recipe,
        steps=NUM_STEPS,
        sample_tokens=min(recipe.sample_tokens, NUM_SAMPLE_TOKENS),
        sample_prompt="",
        evaluation=replace(recipe.evaluation, interval=None if recipe.evaluation.interval is None else 1),
        save=replace(recipe.save, interval=None if recipe.save.interval is None else 1),
        health=replace(recipe.health, drift_interval=None if recipe.health.drift_interval is None else 1),
        log=replace(recipe.log, events=0),
    )
    largest, at = batch.accumulation_at(0), None
    for phase in batch.phases():
        if batch.accumulation_at(phase.first_sample) > largest:
            largest, at = batch.accumulation_at(phase.first_sample), phase.first_sample
    size = (recipe.evaluation.micro_batch or batch.micro_batch) * batch.dp
    each = recipe.layout.pp * size
    return Script(
        recipe=short,
        batch=batch,
        eval_samples={name: min(count, EVAL_ROUNDS * each) for name, count in eval_samples.items()},
        more_eval_samples={name: min(count, (EVAL_ROUNDS + 1) * each) for name, count in eval_samples.items()},
        last_accumulation_at=at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where a rehearsal plays: this rank's world, its scratch folder, and what stands in for the outside.

    `save` writes a checkpoint, `background` makes what writes one beside the training; `stop` is asked before each part
    whether this rank is told to stop in it. `instruments` are those of the watches over the run's numbers; None for
    the real ones. `engine` makes the rank's engine.
    """

    world: World
    folder: RunFolder
    enter: Enter
    save: Callable[..., object]
    background: Callable[[], Background]
    before_part: Callable[[str, StopRequest], None]
    instruments: Instruments | None = None
    engine: Callable[[Recipe, World], Engine] = Engine


def play(script: Script, stage: Stage) -> list[RankOutcome]:
    """Plays every part and returns how each ended. All ranks must call; blocks."""
    engine = stage.engine(script.recipe, stage.world)
    outcomes = [_part(script, stage, engine, "to the end", Position())]
    if script.last_accumulation_at is not None:
        last = Position(step=NUM_STEPS - 1, consumed_samples=script.last_accumulation_at)
        outcomes.append(_part(script, stage, engine, "largest batch", last))
    outcomes.append(_part(script, stage, engine, STOPPED, Position()))
    return outcomes


def _part(script: Script, stage: Stage, engine: Engine, part: str, position: Position) -> RankOutcome:
    recipe = script.recipe
    evals = {
        name: BlankSamples(engine.model.sample, num_samples=count)
        for name, count in (script.more_eval_samples if part == STOPPED else script.eval_samples).items()
    }
    stop = StopRequest()
    trainer = Trainer(
        recipe=recipe,
        batch=script.batch,
        engine=engine,
        train=BlankSamples(engine.model.sample, num_samples=0),
        evals=evals,
        folder=stage.folder,
        stop=stop,
        data_digest="",
        peak_tflops=None,
        save=stage.save,
        background=stage.background(),
        enter=stage.enter,
        instruments=stage.instruments,
    )
    trainer.position = position
    stage.before_part(part, stop)
    return trainer.run()
