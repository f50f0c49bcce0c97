"""What a new run starts from: looked at before any rank starts, and said."""

from pathlib import Path

from emberward import checkpoint
from emberward.families import model_of
from emberward.recipe import Recipe, StartTake


def start_line(recipe: Recipe) -> str | None:
    """What is taken over, in one line; None when the run starts from random weights.

    Reads a manifest. Raises ConfigError K121 when the checkpoint is not there or does not fit the model.
    """
    start = recipe.start
    if start.checkpoint is None:
        return None
    with_moments = start.take is StartTake.OPTIMIZER
    shapes = model_of(recipe.model).shapes
    save = checkpoint.require_start(Path(start.checkpoint).expanduser(), shapes, with_moments=with_moments)
    what = "weights, moments and count of updates" if with_moments else "weights alone, no moments"
    return f"starts from {save}: {what}; step, data and learning rate begin anew"
