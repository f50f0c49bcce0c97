"""``emberward checkpoint export``: the one verb of the CLI that computes with tensors, hence needs torch."""

from pathlib import Path

import torch

from emberward import checkpoint
from emberward.checkpoint import Shard
from emberward.data import open_tokenizer
from emberward.engine import export_hf, parameter_shapes, shape_of
from emberward.findings import ConfigError
from emberward.recipe import read_resolved


def export_save(save: Path, to: Path) -> None:
    """Writes the save's weights to the folder `to` in Hugging Face's form. Needs the memory of the whole model once.

    The model's sizes come from the run's ``config.resolved.yaml``. Raises ConfigError K102 when `to` exists.
    """
    if to.exists():
        raise ConfigError("the folder exists already", code="K102", where=str(to), expected="a new folder")
    recipe = read_resolved(save.parent.parent / "config.resolved.yaml").recipe
    shape = shape_of(recipe)
    wanted = [
        Shard(
            name=f"model/{name}", global_shape=size, box=tuple((0, length) for length in size), tensor=torch.empty(size)
        )
        for name, size in parameter_shapes(shape).items()
    ]
    checkpoint.load(save, wanted)
    parameters = {shard.name.removeprefix("model/"): shard.tensor for shard in wanted}
    export_hf(parameters, shape, to, eod=open_tokenizer(recipe.data.tokenizer).eod)
