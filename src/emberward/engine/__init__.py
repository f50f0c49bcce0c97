"""Do the step: models, parallelism, the executor of programs, the optimizer. Needs torch."""

from emberward.engine._engine import Engine, MicroBatch
from emberward.engine._executor import Executor, Feed
from emberward.engine._gradients import StepTotals
from emberward.engine._world import Channel, World, build_world

__all__ = ["Channel", "Engine", "Executor", "Feed", "MicroBatch", "StepTotals", "World", "build_world"]
