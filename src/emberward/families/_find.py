"""A family by its name in a recipe."""

import difflib
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from emberward.families._config import ModelConfig
from emberward.families._family import Family
from emberward.findings import ConfigError, EmberwardError
from emberward.layout import Model


def family_names() -> tuple[str, ...]:
    """Names of the families that come with Emberward: the folders of this room."""
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/describe.py")))


@cache
def find_family(name: str) -> Family:
    """The family that a recipe calls `name`. Imports a user's module for ``module:name``.

    Raises ConfigError C103 when there is none; what a user's family raises becomes C116, with the line of its file.
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
    if not colon:
        return found
    lacks = [member for member in vars(Family) if not member.startswith("_") and not hasattr(found, member)]
    if lacks or isinstance(found, type):
        raise ConfigError(
            "this is no model family",
            code="C103",
            where=name,
            expected=f"a value with {', '.join(lacks)}" if lacks else f"a value, as {attribute}()",
            found="one without" if lacks else "a class",
            next="docs/add_a_family.md",
        )
    return cast(Family, _Guarded(found, name))


class _Guarded:
    """A user's family: what its methods raise is said with the line of theirs that was running."""

    def __init__(self, family: Family, name: str) -> None:
        self._family = family
        self._name = name

    def __getattr__(self, member: str) -> Any:
        value = getattr(self._family, member)
        return self._guarded(value) if callable(value) else value

    def _guarded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            try:
                found = method(*args, **named)
                return list(found) if isinstance(found, Iterator) else found
            except (EmberwardError, NotImplementedError):
                raise
            except Exception as error:
                own = Path(__file__).parents[1]
                frames = traceback.extract_tb(error.__traceback__)
                theirs = [f for f in frames if Path(f.filename).is_file() and own not in Path(f.filename).parents]
                raise ConfigError(
                    f"{self._name} failed",
                    code="C116",
                    where=f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else method.__name__,
                    found=f"{type(error).__name__}: {error}",
                    next="docs/add_a_family.md",
                ) from error

        return call


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
