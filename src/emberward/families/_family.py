"""What a family of models is to the rest: from the keys of a recipe to a `Model` value, and where its modules are.

[Note: families]
A family's folder has `describe.py`, which makes the `Model` from the recipe's keys and needs no torch, and
`modules.py`, which builds a block as a torch module and reads the loss; it is imported where a block is built. The
engine holds the two together when it builds a stage on the meta device: a parameter without a declaration, a
declaration without a parameter and a part of another shape are errors by name (C116).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from emberward.families._config import ModelConfig
from emberward.layout import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a layout is impossible: what, what would be right, the keys that disagree, and a way out."""

    what: str
    expected: str
    names: tuple[str, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedOut:
    """The value of a key of the model that the recipe leaves open, and from what it was worked out."""

    name: str
    value: int | float | str
    reason: str


class Family(Protocol):
    """A family of models. All methods are pure. See [Note: families]."""

    @property
    def name(self) -> str:
        """Its name in recipes."""

    @property
    def keys(self) -> frozenset[str]:
        """The fields of `ModelConfig` that it reads, beside `family` and `recompute`; others may not be set."""

    @property
    def modules(self) -> str:
        """The dotted name of the module that builds it: see `emberward.families.layers` `Modules`."""

    def work_out(self, config: ModelConfig, *, tokenizer_size: int, tp: int) -> Iterator[WorkedOut]:
        """The keys that a recipe may leave open, each with the value it then has."""

    def misfits(self, config: ModelConfig, *, tp: int) -> Iterator[Misfit]:
        """Why the sizes are impossible, by themselves or over `tp` ranks; some may be None still."""

    def layers_of(self, config: ModelConfig) -> tuple[str, int]:
        """The key that says how many layers there are, and their number: pipeline stages are cut from them."""

    def splits_positions(self, config: ModelConfig, *, tp: int) -> bool:
        """Whether the residual stream can be split along the sequence over `tp` ranks."""

    def describe(self, config: ModelConfig) -> Model:
        """The model of sizes that are all known and fit."""

    def hf_config(self, config: ModelConfig, *, eod: int | None) -> dict[str, Any]:
        """The ``config.json`` with which transformers reads exported weights.

        Raises EmberwardError K102 for sizes that their model cannot express, NotImplementedError where transformers has
        no such model: an export has the weights alone then.
        """
