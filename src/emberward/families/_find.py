"""A family by its name in a recipe."""

import difflib
from functools import cache
from importlib import import_module
from pathlib import Path

from emberward.families._config import ModelConfig
from emberward.families._family import Family
from emberward.findings import ConfigError
from emberward.layout import Model


def family_names() -> tuple[str, ...]:
    """Names of the families that come with Emberward: the folders of this room."""
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/describe.py")))


@cache
def find_family(name: str) -> Family:
    """The family that a recipe calls `name`. Imports a user's module for ``module:name``.

    Raises ConfigError C103 when there is none.
    """
    module, colon, attribute = name.partition(":")
    known = family_names()
    if not colon and name in known:
        module, attribute = f"emberward.families.{name}.describe", "FAMILY"
    elif not colon:
        near = difflib.get_close_matches(name, known, n=1)
        raise _unknown(name, known, next=f"did you mean {near[0]}?" if near else None)
    try:
        found: Family = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise _unknown(name, known, next=f"{type(error).__name__}: {error}") from error
    return found


def _unknown(name: str, known: tuple[str, ...], *, next: str | None) -> ConfigError:
    return ConfigError(
        "there is no such model family",
        code="C103",
        where="model.family",
        expected=f"one of {', '.join(known)}, or module:name of your own",
        found=name,
        next=next,
    )


@cache
def model_of(config: ModelConfig) -> Model:
    """The model of sizes that are all known and fit."""
    return find_family(config.family).describe(config)
