"""What a run shall be: recipes, where each value came from, and every check that needs no rank."""

from emberward.families import ModelConfig
from emberward.recipe._derive import ends_of, launches_of, layers_of_stages, mesh_of, schedule_of, stage_map_of
from emberward.recipe._difference import Difference, differences
from emberward.recipe._fit import Fitted, fit_ranks, resolve_fitted
from emberward.recipe._layouts import layouts_for
from emberward.recipe._load import Loaded, load_recipe
from emberward.recipe._origins import value_text
from emberward.recipe._recipe import (
    BatchConfig,
    CertificatePolicy,
    ComputeType,
    DataConfig,
    Device,
    DriftPolicy,
    EvalConfig,
    HealthConfig,
    ImageConfig,
    ImageMode,
    LayoutConfig,
    LogConfig,
    OnDamage,
    OptimConfig,
    PrecisionConfig,
    RampUp,
    ReadBack,
    Recipe,
    SaveConfig,
    Source,
    SpikePolicy,
    StartConfig,
    StartTake,
    StepLine,
    ZeroStage,
)
from emberward.recipe._reference import configuration_reference, with_reference, write_reference
from emberward.recipe._resolve import Resolved, resolve
from emberward.recipe._resolved_file import read_resolved, recipe_yaml, write_resolved
from emberward.recipe.presets import PRESETS

__all__ = [
    "PRESETS",
    "BatchConfig",
    "CertificatePolicy",
    "ComputeType",
    "DataConfig",
    "Device",
    "Difference",
    "DriftPolicy",
    "EvalConfig",
    "Fitted",
    "HealthConfig",
    "ImageConfig",
    "ImageMode",
    "LayoutConfig",
    "Loaded",
    "LogConfig",
    "ModelConfig",
    "OnDamage",
    "OptimConfig",
    "PrecisionConfig",
    "RampUp",
    "ReadBack",
    "Recipe",
    "Resolved",
    "SaveConfig",
    "Source",
    "SpikePolicy",
    "StartConfig",
    "StartTake",
    "StepLine",
    "ZeroStage",
    "configuration_reference",
    "differences",
    "ends_of",
    "fit_ranks",
    "launches_of",
    "layers_of_stages",
    "layouts_for",
    "load_recipe",
    "mesh_of",
    "read_resolved",
    "recipe_yaml",
    "resolve",
    "resolve_fitted",
    "schedule_of",
    "stage_map_of",
    "value_text",
    "with_reference",
    "write_reference",
    "write_resolved",
]
