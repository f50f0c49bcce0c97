"""Do the step: models, parallelism, the executor of programs, the optimizer. Needs torch."""

from emberward.engine._bloom import BloomShape
from emberward.engine._bloom_hf import export_hf, hf_config, hf_name, parameter_shapes
from emberward.engine._boxing import groups_of_route, run_route
from emberward.engine._by_name import Quantity
from emberward.engine._engine import Engine, MicroBatch, shape_of
from emberward.engine._executor import Executor, Feed
from emberward.engine._gradients import StepTotals
from emberward.engine._inspect import Inspection, NotFinite
from emberward.engine._replicas import Replica, Sharing, holders
from emberward.engine._world import Channel, HostRead, PhaseMark, World, build_world, host_values

__all__ = [
    "BloomShape",
    "Channel",
    "Engine",
    "Executor",
    "Feed",
    "HostRead",
    "Inspection",
    "MicroBatch",
    "NotFinite",
    "PhaseMark",
    "Quantity",
    "Replica",
    "Sharing",
    "StepTotals",
    "World",
    "build_world",
    "export_hf",
    "groups_of_route",
    "hf_config",
    "hf_name",
    "holders",
    "host_values",
    "parameter_shapes",
    "run_route",
    "shape_of",
]
