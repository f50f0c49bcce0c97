"""Reads a foreign pickle as plain data: no class, no global, no code, bounded size."""

import pickle
from io import BufferedReader, BytesIO
from typing import Any, NoReturn

MAX_BYTES = 1 << 30
"""Largest pickle that is read. The recorder's default ring of 2,000 entries takes 0.3 to 3 MB."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"names {module_name}.{global_name}; plain data names no class")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("refers to data outside the file")


def load_plain(data: bytes) -> Any:
    """The plain value in `data`: dicts, lists, tuples, strings, numbers, None.

    Raises ValueError on anything else: a pickle that names a class or function, is cut, or is no pickle at all.
    Nothing in the file is ever run: a pickle can only act through globals, and every one is refused.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes, more than the {MAX_BYTES} that are read")
    try:
        # Buffered, because the C unpickler asks a file without `peek` for every opcode by itself: 2.5 times slower.
        return _PlainUnpickler(BufferedReader(BytesIO(data))).load()
    except Exception as error:
        raise ValueError(f"not a plain pickle: {type(error).__name__}: {error}") from error
