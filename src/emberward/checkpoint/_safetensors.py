"""The safetensors container: headers written and read without its library, whose numpy side has no bfloat16.

Format: https://github.com/huggingface/safetensors, "Format": 8 bytes with N as unsigned little-endian integer, N bytes
of JSON that begin with ``{`` and may end in spaces: name to dtype, shape and data_offsets [begin, end) counted from
the end of the header; ``__metadata__`` maps strings to strings; the data has no holes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.checkpoint._format import DType, FormatProblem

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
"""The bound of the format's own library (safetensors 0.8, ``MAX_HEADER_SIZE``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One entry of a header; `begin` is counted from the end of the header."""

    key: str
    dtype: DType
    shape: tuple[int, ...]
    begin: int
    num_bytes: int


def header_bytes(items: Sequence[Item], metadata: Mapping[str, str]) -> bytes:
    """The header, length included, padded with spaces to a multiple of 8 so that the data is aligned."""
    body: dict[str, Any] = {"__metadata__": dict(metadata)}
    for item in items:
        body[item.key] = {
            "dtype": item.dtype.value,
            "shape": list(item.shape),
            "data_offsets": [item.begin, item.begin + item.num_bytes],
        }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def parse_header(data: bytes) -> tuple[dict[str, Item], dict[str, str]]:
    """Items and metadata of a header with its length, as `header_bytes` wrote it. Raises FormatProblem."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if len(data) < _LENGTH_BYTES or length > _MAX_HEADER_BYTES or len(data) != _LENGTH_BYTES + length:
        raise FormatProblem(f"a header of {len(data)} bytes that says it has {length}")
    try:
        body = json.loads(data[_LENGTH_BYTES:])
        metadata = body.pop("__metadata__", {})
        items = {}
        for key, row in body.items():
            begin, end = row["data_offsets"]
            items[key] = Item(
                key=key, dtype=DType(row["dtype"]), shape=tuple(row["shape"]), begin=begin, num_bytes=end - begin
            )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatProblem(f"a header that is not safetensors: {error!r}") from error
    return items, metadata
