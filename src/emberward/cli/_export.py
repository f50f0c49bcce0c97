"""What Hugging Face must be told of a model that was trained here: the one file of the CLI that reaches torch."""

from pathlib import Path
from typing import Any

from emberward.data import open_tokenizer
from emberward.engine import hf_config, shape_of
from emberward.recipe import read_resolved


def config_of_run(save: Path) -> dict[str, Any]:
    """The ``config.json`` of the model in a save of a run. Reads the run's ``config.resolved.yaml``, no tensor.

    Raises EmberwardError K102 for a model that BLOOM cannot express.
    """
    recipe = read_resolved(save.parent.parent / "config.resolved.yaml").recipe
    return dict(hf_config(shape_of(recipe), eod=open_tokenizer(recipe.data.tokenizer).eod))
