"""Do the step: models, parallelism, the executor of programs, the optimizer. Needs torch."""

from emberward.engine._boxing import groups_of_route, run_route
from emberward.engine._by_name import Quantity
from emberward.engine._engine import Engine, MicroBatch
from emberward.engine._executor import Executor, Feed
from emberward.engine._gradients import StepTotals
from emberward.engine._inspect import Inspection, NotFinite
from emberward.engine._kept import LayerKept, kept_by_layers, kept_bytes
from emberward.engine._lanes import by_host_lane
from emberward.engine._replicas import Replica, Sharing, all_holders, holders
from emberward.engine._shard import ParameterPart
from emberward.engine._stage import StageModule
from emberward.engine._world import Channel, HostRead, PhaseMark, World, build_world, host_values

__all__ = [
    "Channel",
    "Engine",
    "Executor",
    "Feed",
    "HostRead",
    "Inspection",
    "LayerKept",
    "MicroBatch",
    "NotFinite",
    "ParameterPart",
    "PhaseMark",
    "Quantity",
    "Replica",
    "Sharing",
    "StageModule",
    "StepTotals",
    "World",
    "all_holders",
    "build_world",
    "by_host_lane",
    "groups_of_route",
    "holders",
    "host_values",
    "kept_by_layers",
    "kept_bytes",
    "run_route",
]
