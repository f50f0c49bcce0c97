"""What a foreign pickle holds, as inert values: nothing of it is imported, called or run."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emberward.checkpoint._foreign._stored import Stored
from emberward.checkpoint._format import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Global:
    """A name of another program's module, as a pickle wrote it; it is never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, kw_only=True)
class Instance:
    """An object of a class that is not imported: how it was made, and its state.

    `is_called`: by a call, else by new.
    """

    of: Global
    args: tuple[Any, ...]
    is_called: bool
    state: Any = None


class Size(tuple[int, ...]):
    """torch.Size."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRef:
    """A tensor of a torch file: `strides` and `offset` count elements of storage `key`."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    key: str
    offset: int


def to_json(tree: Any, keep: Callable[[Stored], Any]) -> Any:
    """`tree` as JSON, exactly: what JSON has no form for becomes an object with one key that begins with ``$``.

    `keep` says what stands for a tensor. Raises TypeError for what no pickle that was read can hold.
    """

    def walk(value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case Stored():
                return {"$tensor": keep(value)}
            case Global():
                return {"$global": [value.module, value.name]}
            case Instance():
                kind = "$call" if value.is_called else "$new"
                return {kind: [value.of.module, value.of.name, walk(list(value.args)), walk(value.state)]}
            case Size():
                return {"$size": list(value)}
            case bytes():
                return {"$bytes": value.hex()}
            case tuple():
                return {"$tuple": [walk(item) for item in value]}
            case list():
                return [walk(item) for item in value]
            case OrderedDict():
                return {"$ordered": [[walk(key), walk(item)] for key, item in value.items()]}
            case dict():
                if all(isinstance(key, str) and not key.startswith("$") for key in value):
                    return {key: walk(item) for key, item in value.items()}
                return {"$dict": [[walk(key), walk(item)] for key, item in value.items()]}
        raise TypeError(f"a pickle holds no {type(value).__name__}")

    return walk(tree)


def from_json(data: Any, tensor: Callable[[Any], Any]) -> Any:
    """The tree that `to_json` wrote; `tensor` says what becomes of what stood for one."""

    def pairs(rows: list[list[Any]]) -> list[tuple[Any, Any]]:
        return [(walk(key), walk(item)) for key, item in rows]

    makers: Mapping[str, Callable[[Any], Any]] = {
        "$tensor": tensor,
        "$global": lambda pair: Global(module=pair[0], name=pair[1]),
        "$call": lambda row: _instance(row, walk, is_called=True),
        "$new": lambda row: _instance(row, walk, is_called=False),
        "$size": Size,
        "$bytes": bytes.fromhex,
        "$tuple": lambda items: tuple(walk(item) for item in items),
        "$ordered": lambda rows: OrderedDict(pairs(rows)),
        "$dict": lambda rows: dict(pairs(rows)),
    }

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value), None)
        if kind is not None and len(value) == 1 and kind in makers:
            return makers[kind](value[kind])
        return {key: walk(item) for key, item in value.items()}

    return walk(data)


def _instance(row: list[Any], walk: Callable[[Any], Any], *, is_called: bool) -> Instance:
    module, name, args, state = row
    return Instance(of=Global(module=module, name=name), args=tuple(walk(args)), is_called=is_called, state=walk(state))
