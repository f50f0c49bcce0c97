"""Megatron's indexed files: PREFIX.bin holds the tokens, PREFIX.idx says where each sequence and document begins.

[Note: indexed format]
Source: megatron-core 0.16.1, ``megatron/core/datasets/indexed_dataset.py``. All numbers are little-endian.

    .idx   9 bytes   b"MMIDIDX\\x00\\x00"
           uint64    version, 1
           uint8     the tokens' type: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 float64, 7 float32, 8 uint16
           uint64    number of sequences, S
           uint64    number of document indices, D (documents + 1)
           int32[S]  tokens of each sequence
           int64[S]  byte offset of each sequence in .bin
           int64[D]  index of the first sequence of each document, then S
           int8[S]   mode of each sequence, only in multimodal files
    .bin   the tokens of all sequences, one after the other

A document is one or more sequences in a row.
"""

import mmap
import os
import secrets
from array import array
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from emberward.data._tokenizer import Tokens
from emberward.files import anew
from emberward.findings import ConfigError

MAGIC = b"MMIDIDX\x00\x00"
LEGACY_MAGIC = b"TNTIDX\x00\x00"
VERSION = 1
HEADER_BYTES = 34
DTYPE_OF_CODE: dict[int, type[np.generic]] = {
    1: np.uint8,
    2: np.int8,
    3: np.int16,
    4: np.int32,
    5: np.int64,
    8: np.uint16,
}
CODE_OF_DTYPE = {np.dtype(dtype): code for code, dtype in DTYPE_OF_CODE.items()}
FLOAT_CODES = {6: "float64", 7: "float32"}
MAX_SEQUENCE_TOKENS = 2**31 - 1
_BUFFER_BYTES = 1 << 22
_CONVERT_NEXT = "write it anew, or name another prefix"


def bin_path(prefix: Path) -> Path:
    """The path of the tokens' file of `prefix`."""
    return prefix.with_name(prefix.name + ".bin")


def idx_path(prefix: Path) -> Path:
    """The path of the index file of `prefix`."""
    return prefix.with_name(prefix.name + ".idx")


class IndexedWriter:
    """Writes PREFIX.bin and PREFIX.idx as megatron-core's IndexedDatasetBuilder does, byte for byte.

    Use as a context manager. Both files are written aside, flushed to the disk, and renamed when the block ends
    without an exception: .bin first, .idx last, and an old .idx is removed before, so that a reader never sees a pair
    that does not belong together. After an exception nothing of it is left. Memory: 12 bytes a sequence.
    """

    def __init__(self, prefix: Path, dtype: type[np.generic]) -> None:
        """`dtype` is one of the integer types of the format. Tokens are converted to it and must fit."""
        if np.dtype(dtype) not in CODE_OF_DTYPE:
            raise ValueError(f"tokens cannot be stored as {np.dtype(dtype).name}")
        self._prefix = prefix
        self._dtype = np.dtype(dtype)
        self._lengths = array("i")
        self._documents = array("q", [0])
        mark = f".tmp-{os.getpid()}-{secrets.token_hex(4)}"
        self._temporary_bin = bin_path(prefix).with_name(bin_path(prefix).name + mark)
        self._temporary_idx = idx_path(prefix).with_name(idx_path(prefix).name + mark)
        self._stream = self._temporary_bin.open("wb", buffering=_BUFFER_BYTES)
        self.num_tokens = 0

    @property
    def num_documents(self) -> int:
        """Documents ended so far."""
        return len(self._documents) - 1

    def add_sequence(self, tokens: Tokens) -> None:
        """Append one sequence to the document that is open. Raises ValueError when a token does not fit the type."""
        if tokens.dtype != self._dtype:
            _require_fit(tokens, self._dtype)
        for start in range(0, max(len(tokens), 1), MAX_SEQUENCE_TOKENS):
            part = np.ascontiguousarray(tokens[start : start + MAX_SEQUENCE_TOKENS], dtype=self._dtype)
            self._stream.write(part.data)
            self._lengths.append(len(part))
            self.num_tokens += len(part)

    def end_document(self) -> None:
        """End the document that is open."""
        self._documents.append(len(self._lengths))

    def add_document(self, tokens: Tokens) -> None:
        """Append a document of one sequence."""
        self.add_sequence(tokens)
        self.end_document()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._drop()
            return
        try:
            self._commit()
        except BaseException:
            self._drop()
            raise

    def _commit(self) -> None:
        """Flush both files, then put them in place."""
        if self._documents[-1] != len(self._lengths):
            raise ValueError("the last document was not ended")
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        lengths = np.frombuffer(self._lengths, dtype=np.int32)
        pointers = np.zeros(len(lengths), dtype=np.int64)
        np.cumsum(lengths[:-1], dtype=np.int64, out=pointers[1:])
        pointers *= self._dtype.itemsize
        with self._temporary_idx.open("wb", buffering=_BUFFER_BYTES) as stream:
            stream.write(MAGIC)
            stream.write(VERSION.to_bytes(8, "little"))
            stream.write(CODE_OF_DTYPE[self._dtype].to_bytes(1, "little"))
            stream.write(len(lengths).to_bytes(8, "little"))
            stream.write(len(self._documents).to_bytes(8, "little"))
            stream.write(lengths.astype("<i4", copy=False).tobytes())
            stream.write(pointers.astype("<i8", copy=False).tobytes())
            stream.write(np.frombuffer(self._documents, dtype=np.int64).astype("<i8", copy=False).tobytes())
            stream.flush()
            os.fsync(stream.fileno())
        idx_path(self._prefix).unlink(missing_ok=True)
        self._temporary_bin.replace(bin_path(self._prefix))
        self._temporary_idx.replace(idx_path(self._prefix))
        sync_folder(self._prefix.parent)

    def _drop(self) -> None:
        """Close and remove what was written aside."""
        self._stream.close()
        self._temporary_bin.unlink(missing_ok=True)
        self._temporary_idx.unlink(missing_ok=True)


class IndexedReader:
    """Reads PREFIX.bin and PREFIX.idx through a memory map; nothing is copied until asked for.

    Opening checks header and sizes in constant time and raises D101 that names the file, the size that its header
    asks for and the size found. `require_whole` checks every entry. See [Note: indexed format].
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        idx = _map(idx_path(prefix))
        num_sequences, num_indices, self.dtype = _parse_header(bytes(idx[:HEADER_BYTES]), idx_path(prefix))
        self.num_sequences = num_sequences
        plain_bytes = HEADER_BYTES + 12 * num_sequences + 8 * num_indices
        if len(idx) not in (plain_bytes, plain_bytes + num_sequences):
            raise _damaged(
                idx_path(prefix),
                "the index file has another size than its header says",
                expected=f"{plain_bytes:,} bytes for {num_sequences:,} sequences and {num_indices:,} document indices",
                found=f"{len(idx):,} bytes",
            )
        at = HEADER_BYTES
        self.sequence_lengths: NDArray[np.int32] = np.frombuffer(idx, "<i4", num_sequences, at)
        at += 4 * num_sequences
        self._pointers: NDArray[np.int64] = np.frombuffer(idx, "<i8", num_sequences, at)
        at += 8 * num_sequences
        self.document_indices: NDArray[np.int64] = np.frombuffer(idx, "<i8", num_indices, at)
        at += 8 * num_indices
        has_modes = len(idx) > plain_bytes
        self.sequence_modes: NDArray[np.int8] | None = (
            np.frombuffer(idx, "<i1", num_sequences, at) if has_modes else None
        )
        self._tokens = self._map_tokens()
        if num_indices == 0 or int(self.document_indices[0]) != 0 or int(self.document_indices[-1]) != num_sequences:
            raise _damaged(
                idx_path(prefix),
                "the document indices do not span the sequences",
                expected=f"from 0 to {num_sequences:,}",
                found="none"
                if num_indices == 0
                else f"from {int(self.document_indices[0]):,} to {int(self.document_indices[-1]):,}",
            )

    @property
    def num_documents(self) -> int:
        """Documents in the pair."""
        return len(self.document_indices) - 1

    @property
    def num_tokens(self) -> int:
        """Tokens of all sequences together."""
        return len(self._tokens)

    def tokens(self, start: int, stop: int) -> Tokens:
        """Tokens [start, stop) of all sequences laid end to end: a read-only view of the map."""
        return self._tokens[start:stop]

    def sequence(self, index: int) -> Tokens:
        """The tokens of sequence `index`, a read-only view of the map."""
        start = int(self._pointers[index]) // self.dtype.itemsize
        return self._tokens[start : start + int(self.sequence_lengths[index])]

    def document(self, index: int) -> Tokens:
        """The tokens of document `index`: its sequences laid end to end. A read-only view of the map."""
        first, last = int(self.document_indices[index]), int(self.document_indices[index + 1])
        return self._tokens[self._token_start(first) : self._token_start(last)]

    def document_starts(self) -> NDArray[np.int64]:
        """Where each document begins, in tokens, and at the end `num_tokens`: [num_documents + 1]."""
        starts = np.append(self._pointers, self.num_tokens * self.dtype.itemsize)
        result: NDArray[np.int64] = starts[self.document_indices] // self.dtype.itemsize
        return result

    def require_whole(self) -> None:
        """Check every entry of the index, reading it whole. Raises D101 naming the first sequence that is wrong."""
        ends = np.cumsum(self.sequence_lengths, dtype=np.int64) * self.dtype.itemsize
        wanted = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: self.num_sequences]
        wrong = np.flatnonzero((self._pointers != wanted) | (self.sequence_lengths < 0))
        if len(wrong):
            first = int(wrong[0])
            raise _damaged(
                idx_path(self.prefix),
                f"sequence {first:,} does not begin where the one before it ends",
                expected=f"byte {int(wanted[first]):,}",
                found=f"byte {int(self._pointers[first]):,}, length {int(self.sequence_lengths[first]):,}",
            )
        steps = np.flatnonzero(np.diff(self.document_indices) < 0)
        if len(steps):
            first = int(steps[0])
            raise _damaged(
                idx_path(self.prefix),
                f"document {first:,} ends before it begins",
                expected=f"at least {int(self.document_indices[first]):,}",
                found=f"{int(self.document_indices[first + 1]):,}",
            )

    def _map_tokens(self) -> Tokens:
        """The map of the .bin file, whose size must be what the index's last entry says."""
        data = _map(bin_path(self.prefix))
        wanted = 0
        if self.num_sequences:
            wanted = int(self._pointers[-1]) + int(self.sequence_lengths[-1]) * self.dtype.itemsize
        if len(data) != wanted:
            raise _damaged(
                bin_path(self.prefix),
                "the token file has another size than its index says",
                expected=f"{wanted:,} bytes of {self.dtype.name}",
                found=f"{len(data):,} bytes",
            )
        return np.frombuffer(data, self.dtype.newbyteorder("<"))

    def _token_start(self, sequence: int) -> int:
        """Where `sequence` begins, in tokens; `num_sequences` gives the end."""
        return self.num_tokens if sequence == self.num_sequences else int(self._pointers[sequence]) // self._itemsize

    @property
    def _itemsize(self) -> int:
        return self.dtype.itemsize


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, so that a rename outlives a power cut. Blocks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _map(path: Path) -> mmap.mmap | bytes:
    """A read-only map of the file; b"" for an empty one, which cannot be mapped. Raises D101 when it is not there."""

    def read() -> mmap.mmap | bytes:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                return b""
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    try:
        return anew(read)
    except OSError as error:
        raise ConfigError(
            "an indexed file cannot be read",
            code="D101",
            where=str(path),
            expected="both PREFIX.bin and PREFIX.idx",
            found=error.strerror or str(error),
            next="check the prefix",
        ) from error


def _parse_header(header: bytes, path: Path) -> tuple[int, int, np.dtype[np.generic]]:
    """Number of sequences, number of document indices and the tokens' type. Raises D101 for any other file."""
    if header.startswith(LEGACY_MAGIC):
        raise _damaged(path, "an index of the old fairseq format", expected=f"it begins with {MAGIC!r}", found="TNTIDX")
    if not header.startswith(MAGIC):
        raise _damaged(
            path,
            "this is no Megatron index file",
            expected=f"it begins with {MAGIC!r}",
            found=repr(header[: len(MAGIC)]),
        )
    if len(header) < HEADER_BYTES:
        raise _damaged(
            path,
            "the index file ends within its header",
            expected=f"at least {HEADER_BYTES} bytes",
            found=f"{len(header)} bytes",
        )
    version, code = int.from_bytes(header[9:17], "little"), header[17]
    if version != VERSION:
        raise _damaged(
            path, "an unknown version of the index format", expected=f"version {VERSION}", found=str(version)
        )
    if code not in DTYPE_OF_CODE:
        names = ", ".join(f"{known} {np.dtype(dtype).name}" for known, dtype in DTYPE_OF_CODE.items())
        raise _damaged(
            path,
            "the file does not hold tokens",
            expected=f"an integer type: {names}",
            found=f"type code {code}" + (f" ({FLOAT_CODES[code]})" if code in FLOAT_CODES else ""),
        )
    num_sequences, num_indices = int.from_bytes(header[18:26], "little"), int.from_bytes(header[26:34], "little")
    return num_sequences, num_indices, np.dtype(DTYPE_OF_CODE[code])


def _require_fit(tokens: Tokens, dtype: np.dtype[np.generic]) -> None:
    """Raise ValueError when a token is outside what `dtype` holds."""
    if len(tokens) == 0:
        return
    limits = np.iinfo(dtype.name)
    low, high = int(tokens.min()), int(tokens.max())
    if low < limits.min or high > limits.max:
        raise ValueError(f"tokens from {low} to {high} do not fit {dtype.name}")


def _damaged(path: Path, what: str, *, expected: str, found: str) -> ConfigError:
    """The D101 of a file that cannot be what it should be."""
    return ConfigError(what, code="D101", where=str(path), expected=expected, found=found, next=_CONVERT_NEXT)
