"""What a run shall be: recipes, where each value came from, and every check that needs no rank."""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.families import ModelConfig
    from emberward.recipe._debug import DebugOperation, DebugTarget, DebugVerb, no_terminal, parse_debug
    from emberward.recipe._derive import (
        devices_needed,
        ends_of,
        gathered_bytes_of,
        has_backward_lane,
        launches_of,
        layers_of_stages,
        mesh_of,
        schedule_of,
        stage_map_of,
        two_lanes_of,
    )
    from emberward.recipe._difference import Difference, differences
    from emberward.recipe._fit import Fitted, fit_ranks, resolve_fitted
    from emberward.recipe._layouts import layouts_for
    from emberward.recipe._load import Loaded, load_recipe
    from emberward.recipe._origins import value_text
    from emberward.recipe._recipe import (
        Backend,
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
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "PRESETS",
    "Backend",
    "BatchConfig",
    "CertificatePolicy",
    "ComputeType",
    "DataConfig",
    "DebugOperation",
    "DebugTarget",
    "DebugVerb",
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
    "devices_needed",
    "differences",
    "ends_of",
    "fit_ranks",
    "gathered_bytes_of",
    "has_backward_lane",
    "launches_of",
    "layers_of_stages",
    "layouts_for",
    "load_recipe",
    "mesh_of",
    "no_terminal",
    "parse_debug",
    "read_resolved",
    "recipe_yaml",
    "resolve",
    "resolve_fitted",
    "schedule_of",
    "stage_map_of",
    "two_lanes_of",
    "value_text",
    "with_reference",
    "write_reference",
    "write_resolved",
]
