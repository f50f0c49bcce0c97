"""What a new run starts from: looked at before any rank starts, and said."""

from pathlib import Path

from emberward import checkpoint
from emberward.recipe import Recipe, StartTake
from emberward.report import decoder_of


def start_line(recipe: Recipe) -> str | None:
    """What is taken over, in one line; None when the run starts from random weights.

    Reads a manifest. Raises ConfigError K121 when the checkpoint is not there or does not fit the model.
    """
    start = recipe.start
    if start.checkpoint is None:
        return None
    decoder = decoder_of(recipe)
    tensors = [*decoder.first_tensors(), *decoder.last_tensors(is_also_first=True)]
    for layer in range(decoder.num_layers):
        tensors += decoder.layer_tensors(layer)
    with_moments = start.take is StartTake.OPTIMIZER
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    save = checkpoint.require_start(Path(start.checkpoint).expanduser(), shapes, with_moments=with_moments)
    what = "weights, moments and count of updates" if with_moments else "weights alone, no moments"
    return f"starts from {save}: {what}; step, data and learning rate begin anew"
