"""What a run shall be: recipes, where each value came from, and every check that needs no rank."""

from emberward.recipe._derive import layers_of_stages, mesh_of, schedule_of
from emberward.recipe._recipe import (
    BatchConfig,
    ComputeType,
    DataConfig,
    Device,
    EvalConfig,
    Family,
    LayoutConfig,
    LogConfig,
    ModelConfig,
    OptimConfig,
    PrecisionConfig,
    RampUp,
    Recipe,
    SaveConfig,
    Source,
    ZeroStage,
)

__all__ = [
    "BatchConfig",
    "ComputeType",
    "DataConfig",
    "Device",
    "EvalConfig",
    "Family",
    "LayoutConfig",
    "LogConfig",
    "ModelConfig",
    "OptimConfig",
    "PrecisionConfig",
    "RampUp",
    "Recipe",
    "SaveConfig",
    "Source",
    "ZeroStage",
    "layers_of_stages",
    "mesh_of",
    "schedule_of",
]
