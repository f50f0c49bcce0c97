"""Plain data from another process, made into facts only where every value is of the type that it should be."""

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Fact = TypeVar("Fact")

_SCALARS = (bool, int, float, str, NoneType)


def typed(kind: type[Fact], /, **values: Any) -> Fact:
    """``kind(**values)``; raises TypeError where a number, text, truth value or None is of another type than declared.

    A whole number is a float too, a truth value is no number. Members of other types (tuples, other facts) are left to
    whoever made them.
    """
    plain: type = kind
    for name, allowed in _scalars_of(plain).items():
        if name in values and type(values[name]) not in allowed:
            raise TypeError(f"{kind.__name__}.{name} is {type(values[name]).__name__}")
    return kind(**values)


@cache
def _scalars_of(kind: type) -> Mapping[str, frozenset[type]]:
    """The allowed types of each member of a dataclass that is declared by scalars alone."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        if all(option in _SCALARS for option in options):
            found[name] = frozenset((*options, int) if float in options else options)
    return found
