"""Values as they were written, with their places: what YAML, TOML, Python and the command line are all turned into."""

from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from typing import Any

from emberward.recipe._schema import fields_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """One value. `is_plain`: `value` is a text without quotes whose meaning the key's type decides.

    That is how the traps of YAML 1.1 are kept out: there 1e-4 is a text, no is false and 2024-01-01 a date.
    """

    value: object
    where: str
    is_plain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Values in order."""

    items: "tuple[Node, ...]"
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key and its value as they stand in a table; `where` is the key's place."""

    key: str
    where: str
    node: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Keys and values in the order in which they were written, twice given ones included."""

    entries: tuple[Entry, ...]
    where: str


Node = Scalar | Listing | Table


def node_of(value: object, where: str) -> Node:
    """A Python value as a node; every part has the same place."""
    if isinstance(value, dict):
        entries = tuple(Entry(key=str(key), where=where, node=node_of(item, where)) for key, item in value.items())
        return Table(entries=entries, where=where)
    if isinstance(value, list | tuple):
        return Listing(items=tuple(node_of(item, where) for item in value), where=where)
    if not isinstance(value, type) and hasattr(value, "__dataclass_fields__"):
        fields = fields_of(type(value))
        entries = tuple(Entry(key=name, where=where, node=node_of(getattr(value, name), where)) for name in fields)
        return Table(entries=entries, where=where)
    return Scalar(value=value, where=where)


def found_text(node: Node) -> str:
    """What was written, as a message shows it."""
    match node:
        case Table():
            return "a section with " + (", ".join(entry.key for entry in node.entries) or "nothing in it")
        case Listing():
            return f"a list of {len(node.items)}"
        case Scalar():
            return _scalar_text(node.value, is_plain=node.is_plain)


def _scalar_text(value: Any, *, is_plain: bool) -> str:
    if value is None:
        return "null"
    if is_plain:
        return str(value) or "nothing"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{value}"'
    if isinstance(value, date | time):
        return f"the date or time {value}"
    if isinstance(value, int | float):
        return repr(value)
    return f"{value!r} of type {type(value).__name__}"
