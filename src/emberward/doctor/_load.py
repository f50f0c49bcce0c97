"""The load that a job puts on a device, as far as the soak repeats it: one layer of the recipe's model."""

import json
from dataclasses import asdict, dataclass

from emberward.families import LlamaConfig, ModelConfig, RobertaConfig
from emberward.recipe import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The costliest layer of `model`, for micro-batches of `rows` samples, in the type that `compute` names."""

    model: ModelConfig
    rows: int
    compute: str
    """A number type of recipes: ``fp32``, ``bf16`` or ``fp16``."""

    @classmethod
    def of(cls, resolved: Resolved) -> "Load":
        """The load of a recipe."""
        recipe = resolved.recipe
        return cls(model=recipe.model, rows=resolved.batch.micro_batch, compute=recipe.precision.compute.value)

    def word(self) -> str:
        """It as one word of a command line, which `read` takes."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, word: str) -> "Load":
        """What `word` gave."""
        told = json.loads(word)
        model = told["model"]
        tuples = {key: tuple(value) for key, value in model.items() if isinstance(value, list)}
        own = {"llama": LlamaConfig(**model["llama"]), "roberta": RobertaConfig(**model["roberta"])}
        return cls(model=ModelConfig(**{**model, **tuples, **own}), rows=told["rows"], compute=told["compute"])
