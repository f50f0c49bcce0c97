"""Facts as plain data for another process, and back only where every value is of the type that it should be.

A fact whose members are all scalars is a row of them, in their order; another one an object by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

Fact = TypeVar("Fact")

_SCALARS = (bool, int, float, str, NoneType)


def to_plain(value: Any) -> Any:
    """The value as JSON has it. Members that do not count when facts are compared follow from others: left out."""
    if is_dataclass(value):
        kind: type = type(value)
        named = {name: to_plain(getattr(value, name)) for name in _members(kind)}
        return list(named.values()) if _is_row(kind) else named
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def from_plain(kind: type[Fact], data: Any) -> Fact:
    """The fact that `to_plain` gave; raises ValueError, KeyError or TypeError on other data.

    A whole number is a float too, a truth value is no number. What is declared as Any is taken as it is.
    """
    plain: type = kind
    return cast(Fact, _reader(plain)(data))


@cache
def _members(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind) if each.compare}


@cache
def _is_row(kind: type) -> bool:
    options = [option for hint in _members(kind).values() for option in get_args(hint) or (hint,)]
    return all(option in _SCALARS or (isinstance(option, type) and issubclass(option, Enum)) for option in options)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """What makes a value of a declared type from plain data."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda data: data
    if origin is UnionType:
        (only,) = [_reader(each) for each in args if each is not NoneType]
        return lambda data: None if data is None else only(data)
    if origin is tuple:
        is_open = args[-1] is Ellipsis
        readers = [_reader(each) for each in args if each is not Ellipsis]
        return lambda data: tuple(
            read(each) for read, each in zip(repeat(readers[0], len(data)) if is_open else readers, data, strict=True)
        )
    if origin is Mapping:
        key, value = args[0], _reader(args[1])
        return lambda data: {key(name): value(each) for name, each in _checked(dict, data).items()}
    if is_dataclass(kind):
        members = {name: _reader(hint) for name, hint in _members(cast(type, kind)).items()}
        is_row = _is_row(cast(type, kind))

        def read(data: Any) -> Any:
            named = dict(zip(members, _checked(list, data), strict=True)) if is_row else _checked(dict, data)
            return cast(Callable[..., Any], kind)(**{name: members[name](each) for name, each in named.items()})

        return read
    if issubclass(kind, Enum):
        return lambda data: kind(data)
    return lambda data: _checked(kind, data)


def _checked(kind: type, data: Any) -> Any:
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise TypeError(f"{data!r:.40} is no {kind.__name__}")
    return data
