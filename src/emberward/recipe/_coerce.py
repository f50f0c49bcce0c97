"""Values read by the type of their key. Every failure is a ConfigError that names the key and the place."""

import math
import re
import sys
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Any, get_args, get_origin

from emberward.findings import ConfigError
from emberward.recipe._names import closest
from emberward.recipe._node import Entry, Listing, Node, Scalar, Table, found_text
from emberward.recipe._schema import choices, fields_of, is_section, type_text, without_none

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*(_[0-9]+)*|0x[0-9a-f]+|0o[0-7]+|0b[01]+)", re.IGNORECASE)
# Python refuses to read texts of more than 4,300 digits; no number of a recipe is anywhere near.
_MAX_DIGITS = 400
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_DECIMAL = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?[0-9]+)?", re.IGNORECASE)
BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_NULLS = ("null", "none")


def coerce(name: str, hint: Any, node: Node) -> object:
    """The value of `node` as the type `hint` of key `name`. Raises ConfigError C102 or C103."""
    inner, may_be_none = without_none(hint)
    if may_be_none and _is_null(node, inner):
        return None
    if get_origin(inner) is tuple:
        return _tuple(name, hint, inner, node)
    if is_section(inner):
        return _section(name, inner, node)
    if not isinstance(node, Scalar):
        raise _wrong_type(name, hint, node)
    if issubclass(inner, Enum):
        return _member(name, hint, inner, node)
    return _READERS[inner](name, hint, node)


def _is_null(node: Node, inner: Any) -> bool:
    if not isinstance(node, Scalar):
        return False
    if node.value is None:
        return True
    is_word = node.is_plain or (isinstance(node.value, str) and inner is not str)
    return is_word and str(node.value).lower() in _NULLS


def _wrong_type(name: str, hint: Any, node: Node, next: str | None = None) -> ConfigError:
    return ConfigError(
        f"{name} has the wrong type",
        code="C102",
        where=node.where,
        expected=type_text(hint),
        found=found_text(node),
        next=next,
    )


def _int(name: str, hint: Any, node: Scalar) -> int:
    value = node.value
    if node.is_plain and isinstance(value, str):
        if _INTEGER.fullmatch(value) and len(value) <= _MAX_DIGITS:
            return int(value, 0)
        raise _wrong_type(name, hint, node, _integer_advice(name, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise _wrong_type(name, hint, node, _number_advice(value))


def _integer_advice(name: str, text: str) -> str | None:
    if re.fullmatch(r"[+-]?0[0-9_]+", text):
        # YAML 1.1 reads 010 as 8, YAML 1.2 as 10.
        return f"{name}={text.lstrip('+-0_') or 0}, or 0o{text.lstrip('+-0_') or 0} if it is octal"
    if _DECIMAL.fullmatch(text) and math.isfinite(float(text)) and float(text).is_integer():
        return f"{name}={int(float(text))}"
    return None


def _float(name: str, hint: Any, node: Scalar) -> float:
    value = node.value
    if node.is_plain and isinstance(value, str):
        if not _DECIMAL.fullmatch(value) or not math.isfinite(float(value)):
            raise _wrong_type(name, hint, node)
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return float(value)
    raise _wrong_type(name, hint, node, _number_advice(value))


def _number_advice(value: object) -> str | None:
    is_number = isinstance(value, str) and _DECIMAL.fullmatch(value)
    return "leave the quotes out" if is_number else None


def _bool(name: str, hint: Any, node: Scalar) -> bool:
    if isinstance(node.value, bool):
        return node.value
    if node.is_plain and str(node.value).lower() in BOOLS:
        return BOOLS[str(node.value).lower()]
    raise _wrong_type(name, hint, node)


def _str(name: str, hint: Any, node: Scalar) -> str:
    if not isinstance(node.value, str) or isinstance(node.value, Enum):
        advice = "put it in quotes" if isinstance(node.value, int | float) else None
        raise _wrong_type(name, hint, node, advice)
    return node.value


_READERS: Mapping[Any, Any] = {int: _int, float: _float, bool: _bool, str: _str}


def _member(name: str, hint: Any, enum: type[Enum], node: Scalar) -> Enum:
    if isinstance(node.value, enum):
        return node.value
    if issubclass(enum, IntEnum):
        number = _int(name, hint, node)
        if number in enum._value2member_map_:
            return enum(number)
    elif isinstance(node.value, str):
        members = {str(member.value).lower(): member for member in enum}
        if node.value.lower() in members:
            return members[node.value.lower()]
    else:
        raise _wrong_type(name, hint, node)
    near = closest(str(node.value), choices(enum))
    raise ConfigError(
        f"{name} is not one of its choices",
        code="C103",
        where=node.where,
        expected=type_text(hint),
        found=found_text(node),
        next=f"did you mean {name}={near[0]}?" if near else None,
    )


def _tuple(name: str, hint: Any, inner: Any, node: Node) -> tuple[object, ...]:
    item, *rest = get_args(inner)
    is_open = bool(rest) and rest[0] is Ellipsis
    items = _items(node, is_text=is_section(item) or item is str)
    if items is None or (not is_open and len(items) != 1 + len(rest)):
        raise _wrong_type(name, hint, node)
    hints = [item] * len(items) if is_open else [item, *rest]
    pairs = enumerate(zip(hints, items, strict=True))
    return tuple(coerce(f"{name}[{index}]", each, one) for index, (each, one) in pairs)


def _items(node: Node, *, is_text: bool) -> tuple[Node, ...] | None:
    """The parts of a list, also of one that was written as ``a,b``; None when it is no list."""
    if isinstance(node, Listing):
        return node.items
    if isinstance(node, Table):
        return (node,) if is_text else None
    if not isinstance(node.value, str) or not (node.is_plain or is_text):
        return None
    parts = [part.strip() for part in node.value.split(",")]
    return tuple(Scalar(value=part, where=node.where, is_plain=node.is_plain) for part in parts if part)


def _section(name: str, section: type, node: Node) -> object:
    """One dataclass inside a list (a Source). A text alone is its first field."""
    fields = fields_of(section)
    if isinstance(node, Scalar) and isinstance(node.value, str):
        node = Table(entries=(Entry(key=next(iter(fields)), where=node.where, node=node),), where=node.where)
    if not isinstance(node, Table):
        raise _wrong_type(name, section, node)
    values: dict[str, object] = {}
    for entry in node.entries:
        field = entry.key.replace("-", "_")
        if field not in fields:
            near = closest(field, fields)
            raise ConfigError(
                f"unknown key {name}.{entry.key}",
                code="C101",
                where=entry.where,
                expected=f"one of {', '.join(fields)}",
                found=entry.key,
                next=f"did you mean {near[0]}?" if near else None,
            )
        if field in values:
            raise ConfigError(f"{name}.{field} is given twice", code="C106", where=entry.where)
        values[field] = coerce(f"{name}.{field}", fields[field].type, entry.node)
    first = next(iter(fields))
    if first not in values:
        raise ConfigError(
            f"{name} has no {first}", code="C102", where=node.where, expected=type_text(section), found=found_text(node)
        )
    return section(**values)
