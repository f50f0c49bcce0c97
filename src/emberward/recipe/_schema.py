"""The keys of a recipe, read off its dataclasses, and a recipe taken apart into keys and put together again."""

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache, lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from emberward.recipe._recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key that a person can set: its dotted name, its type and the value it has when nobody sets it."""

    name: str
    type: Any
    default: object


def without_none(hint: Any) -> tuple[Any, bool]:
    """The type without its None, and whether None was allowed."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [part for part in get_args(hint) if part is not type(None)]
        assert len(rest) == 1, f"a key has one type, or that and None, found {hint}"
        return rest[0], len(rest) < len(get_args(hint))
    return hint, False


def is_section(hint: Any) -> bool:
    """Whether values of the type have keys of their own."""
    return dataclasses.is_dataclass(without_none(hint)[0])


def fields_of(section: type) -> Mapping[str, Key]:
    """The fields of one dataclass by name, with types resolved; a field without a default has MISSING."""
    return _fields_of(section)


@lru_cache(maxsize=256)
def _fields_of(section: Any) -> Mapping[str, Key]:
    hints = get_type_hints(section)
    found: dict[str, Key] = {}
    for field in dataclasses.fields(section):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found[field.name] = Key(name=field.name, type=hints[field.name], default=default)
    return found


@cache
def sections() -> Mapping[str, type]:
    """Every section by its dotted name, in the order of the recipe; the recipe itself is ``""``."""
    found: dict[str, type] = {}

    def visit(prefix: str, section: type) -> None:
        found[prefix] = section
        for key in fields_of(section).values():
            if is_section(key.type):
                visit(join(prefix, key.name), without_none(key.type)[0])

    visit("", Recipe)
    return found


@cache
def keys() -> Mapping[str, Key]:
    """Every key by its dotted name, in the order of the recipe, sections that may be null (batch.ramp_up) included."""
    found: dict[str, Key] = {}
    for prefix, section in sections().items():
        for key in fields_of(section).values():
            name = join(prefix, key.name)
            if not is_section(key.type) or without_none(key.type)[1]:
                found[name] = Key(name=name, type=key.type, default=key.default)
    return found


def join(prefix: str, name: str) -> str:
    """The dotted name of `name` in section `prefix`."""
    return f"{prefix}.{name}" if prefix else name


def leaves(value: object, prefix: str = "") -> dict[str, object]:
    """The recipe (or one of its sections, under `prefix`) as keys and values."""
    found: dict[str, object] = {}
    for key in fields_of(type(value)).values():
        name, inner = join(prefix, key.name), getattr(value, key.name)
        if is_section(key.type) and dataclasses.is_dataclass(inner):
            found |= leaves(inner, name)
        else:
            found[name] = inner
    return found


def assemble(values: Mapping[str, object]) -> Recipe:
    """The recipe that `leaves` took apart. Raises KeyError with the name of a key that is missing."""
    recipe = _assemble(values, "", Recipe)
    assert isinstance(recipe, Recipe)
    return recipe


def _assemble(values: Mapping[str, object], prefix: str, section: type) -> object:
    found: dict[str, object] = {}
    for key in fields_of(section).values():
        name = join(prefix, key.name)
        inner, may_be_none = without_none(key.type)
        if not is_section(key.type) or (may_be_none and name in values):
            found[key.name] = values[name]
        else:
            found[key.name] = _assemble(values, name, inner)
    return section(**found)


def type_text(hint: Any) -> str:
    """The type as a person reads it, e.g. ``a whole number or null``."""
    inner, may_be_none = without_none(hint)
    return _plain_type_text(inner) + (" or null" if may_be_none else "")


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLURALS = {int: "whole numbers", float: "numbers", str: "texts"}


def _plain_type_text(hint: Any) -> str:
    if hint in _NAMES:
        return _NAMES[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return f"one of {', '.join(choices(hint))}"
    if get_origin(hint) is tuple:
        item, *rest = get_args(hint)
        number = f"{1 + len(rest)} " if rest and rest[0] is not Ellipsis else "a list of "
        return number + ("sources" if is_section(item) else _PLURALS[item])
    assert dataclasses.is_dataclass(hint), f"no words for type {hint}"
    return "a section with " + ", ".join(field.name for field in dataclasses.fields(hint))


def choices(hint: type[Enum]) -> list[str]:
    """The words that stand for the members of an enum: their values, numbers for an IntEnum."""
    return [str(int(member)) if isinstance(member, IntEnum) else str(member.value) for member in hint]
