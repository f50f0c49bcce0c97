"""What a model is: each folder is one family. Torch is needed only where a family's modules are built."""

from emberward.families._config import LlamaConfig, ModelConfig, RobertaConfig
from emberward.families._family import Family, Misfit, WorkedOut
from emberward.families._find import family_names, find_family, model_of
from emberward.families._sizes import (
    divisors,
    heads_misfit,
    near_divisors,
    near_multiples,
    padded_vocabulary,
    tp_misfits,
)

__all__ = [
    "Family",
    "LlamaConfig",
    "Misfit",
    "ModelConfig",
    "RobertaConfig",
    "WorkedOut",
    "divisors",
    "family_names",
    "find_family",
    "heads_misfit",
    "model_of",
    "near_divisors",
    "near_multiples",
    "padded_vocabulary",
    "tp_misfits",
]
