"""The engine of a dry run: what repeats itself is executed a few times. What is: docs/check.md, "What is executed"."""

from collections import defaultdict
from dataclasses import replace
from functools import partial

from emberward.engine import Engine, Feed, World
from emberward.events import Event, Sink
from emberward.rank._folded_layers import Alike, FoldedLayer
from emberward.rank._folded_steps import StepFolder
from emberward.recipe import Recipe
from emberward.sources import Tape


class FoldedEngine(Engine):
    """The engine, whose equal layers and equal micro-batches are executed a few times each, their calls noted on
    `tape`. See `_folded_layers.py` [Note: folded layers] and `_folded_steps.py` [Note: folded steps]."""

    def __init__(self, recipe: Recipe, world: World, *, tape: Tape) -> None:
        assert world.mark is not None, "a dry run marks its phases"
        self._folder = StepFolder(tape, world.mark)
        super().__init__(recipe, replace(world, mark=self._folder.mark))
        alike: Alike = defaultdict(list)
        for stage in self._stages.values():
            stage.replace_layers(partial(FoldedLayer, tape, alike))

    def _run(
        self, kind: str, num_mb: int, batch: int, feed: Feed, *, step: int | None = None, sink: Sink | None = None
    ) -> None:
        def execute(program: tuple[Event, ...]) -> None:
            self._executor.run(program, feed, step=step, sink=sink)

        def program_of(count: int) -> tuple[Event, ...]:
            return self._program_of(kind, count, batch)

        self._folder.run(num_mb, program_of, execute, key=(kind, batch), step=step)
