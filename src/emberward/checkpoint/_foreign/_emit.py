"""Writes pickles that torch.load reads, opcode by opcode: names of other programs' classes go in without an import.

Opcodes: Python's ``pickletools``, protocol 2, which is what torch.save writes. Nothing is shared between values, so no
memo is needed; a value that holds itself cannot come from a tree.
"""

import struct
from collections import OrderedDict
from typing import Any

from emberward.checkpoint._foreign._tree import Global, Instance, Size, TensorRef
from emberward.checkpoint._foreign._unpickle import STORAGES, key_instance
from emberward.checkpoint._format import DType

_STORAGE_OF = {dtype: name for name, dtype in STORAGES.items()}
_DTYPE_NAMES = {
    DType.F8_E4M3: "float8_e4m3fn",
    DType.F8_E5M2: "float8_e5m2",
    DType.U64: "uint64",
    DType.U32: "uint32",
    DType.U16: "uint16",
}
"""Types that have no typed storage: torch 2.13 writes them by ``_rebuild_tensor_v3`` over an untyped one."""
_MAX_DEPTH = 64


def pickled(tree: Any) -> bytes:
    """The pickle of a tree, with its tensors as references to the storages of the archive it lies in."""
    out = bytearray(b"\x80\x02")
    _emit(out, tree, 0)
    return bytes(out + b".")


def _global(out: bytearray, module: str, name: str) -> None:
    out += b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def _emit(out: bytearray, value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError("a tree is nested too deeply to be written")
    value = key_instance(value) or value
    match value:
        case None:
            out += b"N"
        case bool():
            out += b"\x88" if value else b"\x89"
        case int():
            _emit_int(out, value)
        case float():
            out += b"G" + struct.pack(">d", value)
        case str():
            data = value.encode("utf-8", "surrogatepass")
            out += b"X" + struct.pack("<I", len(data)) + data
        case bytes():
            _global(out, "_codecs", "encode")
            _emit(out, (value.decode("latin1"), "latin1"), depth + 1)
            out += b"R"
        case TensorRef():
            _emit_tensor(out, value, depth)
        case Global():
            _global(out, value.module, value.name)
        case Instance():
            _emit_instance(out, value, depth)
        case Size():
            _global(out, "torch", "Size")
            _emit(out, (tuple(value),), depth + 1)
            out += b"R"
        case tuple():
            out += b"("
            for item in value:
                _emit(out, item, depth + 1)
            out += b"t"
        case list():
            out += b"]("
            for item in value:
                _emit(out, item, depth + 1)
            out += b"e"
        case dict():
            _emit_dict(out, value, depth)
        case _:
            raise TypeError(f"no pickle is written of {type(value).__name__}")


def _emit_int(out: bytearray, value: int) -> None:
    if -(1 << 31) <= value < 1 << 31:
        out += b"J" + struct.pack("<i", value)
    else:
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        out += b"\x8a" + bytes([len(data)]) + data


def _emit_dict(out: bytearray, value: dict[Any, Any], depth: int) -> None:
    if isinstance(value, OrderedDict):
        _global(out, "collections", "OrderedDict")
        out += b")R"
    else:
        out += b"}"
    out += b"("
    for key, item in value.items():
        _emit(out, key, depth + 1)
        _emit(out, item, depth + 1)
    out += b"u"


def _emit_instance(out: bytearray, value: Instance, depth: int) -> None:
    _global(out, value.of.module, value.of.name)
    _emit(out, tuple(value.args), depth + 1)
    out += b"R" if value.is_called else b"\x81"
    if value.state is not None:
        _emit(out, value.state, depth + 1)
        out += b"b"


def _emit_tensor(out: bytearray, ref: TensorRef, depth: int) -> None:
    """As ``torch/_utils.py`` rebuilds it: storage, offset, size, stride, requires_grad, hooks."""
    typed = _STORAGE_OF.get(ref.dtype)
    numel = 1
    for length in ref.shape:
        numel *= length
    _global(out, "torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3")
    out += b"(("
    _emit(out, "storage", depth + 1)
    if typed:
        _global(out, "torch", typed)
    else:
        _global(out, "torch.storage", "UntypedStorage")
    for word in (ref.key, "cpu", numel if typed else numel * ref.dtype.item_bytes):
        _emit(out, word, depth + 1)
    out += b"tQ"
    rest: tuple[Any, ...] = (ref.offset, tuple(ref.shape), tuple(ref.strides), False, OrderedDict())
    for item in rest:
        _emit(out, item, depth + 1)
    if not typed:
        _global(out, "torch", _DTYPE_NAMES[ref.dtype])
    out += b"tR"
