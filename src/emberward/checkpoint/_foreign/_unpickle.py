"""Reads pickles of torch, DeepSpeed and DCP without running them.

Only the names listed here are understood. Any other stops the reading (K111): a pickle can name any function of any
module and have it called. Classes that are known but not needed become inert `Instance` values; nothing is imported.
"""

import io
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from emberward.checkpoint._foreign._pickle_bounds import require_bounded
from emberward.checkpoint._foreign._problems import unreadable
from emberward.checkpoint._foreign._tree import Global, Instance, Size, TensorRef
from emberward.checkpoint._format import DType
from emberward.findings import EmberwardError

STORAGES = {
    "DoubleStorage": DType.F64,
    "FloatStorage": DType.F32,
    "HalfStorage": DType.F16,
    "BFloat16Storage": DType.BF16,
    "LongStorage": DType.I64,
    "IntStorage": DType.I32,
    "ShortStorage": DType.I16,
    "CharStorage": DType.I8,
    "ByteStorage": DType.U8,
    "BoolStorage": DType.BOOL,
    "ComplexFloatStorage": DType.C64,
}
"""torch's typed storages (torch 2.13, ``torch/storage.py``)."""

TORCH_DTYPES = {
    "float64": DType.F64,
    "float32": DType.F32,
    "float16": DType.F16,
    "bfloat16": DType.BF16,
    "float8_e4m3fn": DType.F8_E4M3,
    "float8_e5m2": DType.F8_E5M2,
    "int64": DType.I64,
    "int32": DType.I32,
    "int16": DType.I16,
    "int8": DType.I8,
    "uint64": DType.U64,
    "uint32": DType.U32,
    "uint16": DType.U16,
    "uint8": DType.U8,
    "bool": DType.BOOL,
    "complex64": DType.C64,
}

_INERT = re.compile(
    r"torch\.(\w+Storage|\w*int\d+|b?float\d+\w*|bool|complex64|device|strided|contiguous_format|preserve_format)"
    r"|torch\.(Tensor|storage\.UntypedStorage|serialization\._get_layout|nn\.parameter\.Parameter)"
    r"|torch\.distributed\.checkpoint\.(metadata|filesystem|api|planner)\.\w+"
    r"|deepspeed(\.\w+)*\.\w+"
    r"|megatron(\.\w+)*\.\w*(Type|Types|Enum|Backend|Config)"
    r"|numpy\.(dtype|ndarray)|numpy\.(_?core)\.(multiarray|numeric)\.(_reconstruct|scalar|_frombuffer)"
    r"|argparse\.Namespace|pathlib\.(Posix)?Path|types\.SimpleNamespace|collections\.deque|datetime\.\w+"
)
"""Names that may stand in a file. They become values without behaviour."""

_MIN_VALUES = 1 << 20
"""Values that any tree may have; a longer pickle as many as it has bytes."""

_PLAIN_CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": lambda *_: {},
    "torch.Size": lambda items=(): Size(items),
    "_codecs.encode": lambda text, encoding="latin1": text.encode("latin1"),
    "builtins.set": lambda items=(): list(items),
    "builtins.frozenset": lambda items=(): list(items),
    "builtins.complex": lambda real, imag: (real, imag),
    "builtins.bytearray": lambda items=b"", *_: items if isinstance(items, bytes) else bytes(list(items)),
    "builtins.list": lambda items=(): list(items),
    "builtins.dict": dict,
    "builtins.slice": lambda *ends: tuple(ends),
}


def _refused(name: str, where: str) -> EmberwardError:
    return EmberwardError(
        "a foreign file names something that is not known, and was not run",
        code="K111",
        where=where,
        expected="tensors, plain values and classes of torch, DeepSpeed and Megatron",
        found=name,
        next="if you trust the file, save it again without this value; nothing of it was executed",
    )


class _Inert(type):
    """Makes classes that stand for those of another program: instances only remember how they were made."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made: Any = cls.__new__(cls, *args)  # type: ignore[arg-type]
        made.is_called = True
        return made


def _inert_class(module: str, name: str) -> type:
    def new(cls: type, *args: Any) -> Any:
        made: Any = object.__new__(cls)
        made.args, made.is_called, made.state, made.items = args, False, None, []
        return made

    def set_state(self: Any, state: Any) -> None:
        self.state = state

    def append(self: Any, item: Any) -> None:
        self.items.append(item)

    body = {
        "__new__": new,
        "__setstate__": set_state,
        "append": append,
        "extend": lambda self, items: self.items.extend(items),
        "__setitem__": lambda self, key, item: self.items.append((key, item)),
        "of": Global(module=module, name=name),
        "__hash__": object.__hash__,
    }
    return _Inert("Inert", (), body)


def _is_inert(value: Any) -> bool:
    return isinstance(type(value), _Inert)


class _Unpickler(pickle.Unpickler):
    """Knows the names above, and tensors."""

    def __init__(self, data: bytes, where: str) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._where = where
        self._classes: dict[str, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name; nothing is ever imported."""
        full = f"{module}.{name}".replace("__builtin__.", "builtins.")
        known: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._tensor_of_dtype,
            "torch._utils._rebuild_parameter": lambda data, *_: data,
            "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
            "torch._tensor._rebuild_from_type_v2": lambda rebuild, _type, args, _state: rebuild(*args),
            "copyreg._reconstructor": lambda cls, *_: cls.__new__(cls),
            **_PLAIN_CALLS,
        }
        if full in known:
            return known[full]
        if not _INERT.fullmatch(full):
            raise _refused(full, self._where)
        return self._classes.setdefault(full, _inert_class(module, name))

    def persistent_load(self, pid: Any) -> Any:
        """A storage, as (its key, its dtype or None when it has none)."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise unreadable("a file does not name its storages as torch does", where=self._where, found=str(pid)[:80])
        return str(pid[2]), STORAGES.get(pid[1].of.name)

    def _tensor(self, storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> TensorRef:
        key, dtype = storage
        if dtype is None:
            raise unreadable("a tensor's number type is not known", where=self._where, found=f"storage {key}")
        shape, strides = tuple(size), tuple(stride)
        if len(shape) != len(strides) or any(type(n) is not int or n < 0 for n in (*shape, *strides, offset)):
            found = f"{shape} {strides} {offset}"[:80]
            raise unreadable("a tensor's place is no range", where=self._where, found=found)
        return TensorRef(dtype=dtype, shape=shape, strides=strides, key=key, offset=offset)

    def _tensor_of_dtype(
        self, storage: Any, offset: int, size: Any, stride: Any, _grad: Any, _hooks: Any, dtype: Any, *_: Any
    ) -> TensorRef:
        named = TORCH_DTYPES.get(dtype.of.name)
        return self._tensor((storage[0], named), offset, size, stride)


def unpickle(data: bytes, where: str) -> Any:
    """The values in a pickle as plain values, `Instance`, `Global`, `Size` and `TensorRef`. Runs nothing of it.

    Raises EmberwardError K111 for a name that is not known and K110 for bytes that are no pickle or exceed a bound
    (see [Note: pickle bombs]).
    """
    try:
        require_bounded(data)
        return _Settling(max(_MIN_VALUES, len(data))).settle(_Unpickler(data, where).load())[0]
    except EmberwardError:
        raise
    except Exception as error:  # damaged bytes can make the unpickler raise nearly anything
        raise unreadable(
            "a pickle cannot be read",
            where=where,
            expected="a whole pickle of torch",
            found=f"{type(error).__name__}: {str(error)[:120]}",
        ) from error


class _Settling:
    """Turns the classes that stood for others' into values. What is shared is turned once, and stays shared.

    A pickle can share a list so that its tree, written out, has more values than any memory: `limit` bounds that.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._done: dict[int, tuple[Any, int] | None] = {}

    def settle(self, value: Any) -> tuple[Any, int]:
        """The value, and how many values it is when it is written out. Raises ValueError beyond the limit."""
        if isinstance(value, (str, bytes, int, float, Size, TensorRef, type(None))):
            return value, 1
        if id(value) in self._done:
            found = self._done[id(value)]
            if found is None:
                raise ValueError("a value that holds itself")
            return found
        self._done[id(value)] = None
        made, count = self._made(value)
        if count > self._limit:
            raise ValueError(f"more than {self._limit} values when what it shares is written out")
        self._done[id(value)] = made, count
        return made, count

    def _made(self, value: Any) -> tuple[Any, int]:
        if isinstance(value, _Inert):
            return getattr(value, "of"), 1  # noqa: B009 (made at run time)
        if _is_inert(value):
            state = value.state if not value.items else {"state": value.state, "items": value.items}
            args, num_args = self.settle(value.args)
            settled, num_state = self.settle(state)
            instance = Instance(of=value.of, args=args, is_called=value.is_called, state=settled)
            return instance, 1 + num_args + num_state
        if isinstance(value, dict):
            pairs = [(*self.settle(key), *self.settle(item)) for key, item in value.items()]
            rows = ((_key(key), item) for key, _, item, _ in pairs)
            kind = OrderedDict if isinstance(value, OrderedDict) else dict
            return kind(rows), 1 + sum(keys + items for _, keys, _, items in pairs)
        if isinstance(value, (list, tuple)):
            items = [self.settle(item) for item in value]
            made = [item for item, _ in items]
            return made if isinstance(value, list) else tuple(made), 1 + sum(count for _, count in items)
        return (None if callable(value) else value), 1  # callable: a known function that the file only names


def _key(key: Any) -> Any:
    """A key that can be looked up: an object that was one becomes the text of its state."""
    return key if not isinstance(key, Instance) else IndexKey(key)


class IndexKey:
    """An `Instance` used as a key (DCP's ``MetadataIndex``); compared by identity."""

    __slots__ = ("instance",)

    def __init__(self, instance: Instance) -> None:
        self.instance = instance


def key_instance(key: Any) -> Instance | None:
    """The object that was a dictionary's key, None for a plain key."""
    return key.instance if isinstance(key, IndexKey) else None
