"""A resolved recipe as the plain sizes that `plan` counts memory and bytes from."""

from emberward.families import model_of
from emberward.plan import StepShape, Tiling
from emberward.recipe import (
    ComputeType,
    Recipe,
    gathered_bytes_of,
    has_backward_lane,
    launches_of,
    layers_of_stages,
    mesh_of,
    schedule_of,
)

_WIDTH = {ComputeType.FP32: 4, ComputeType.BF16: 2, ComputeType.FP16: 2}


def step_shape_of(recipe: Recipe) -> StepShape:
    """The sizes of a full step (after any ramp-up) of a resolved recipe."""
    layout, batch = recipe.layout, recipe.batch
    assert batch.accumulation is not None and batch.micro_batch is not None, "the recipe is not resolved"
    return StepShape(
        model=model_of(recipe.model),
        mesh=mesh_of(layout),
        stage_layers=layers_of_stages(recipe),
        schedule=schedule_of(recipe, batch.accumulation),
        zero=int(layout.zero),
        tiling=Tiling(
            micro_batch=batch.micro_batch,
            tp=layout.tp,
            sequence_parallel=recipe.splits_sequence and layout.tp > 1,
            compute_bytes=_WIDTH[recipe.precision.compute],
            recompute=recipe.model.recompute,
        ),
        launches=launches_of(recipe),
        has_backward_lane=has_backward_lane(recipe),
        gathered_bytes=gathered_bytes_of(recipe),
    )
