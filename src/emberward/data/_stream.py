"""The tokens of one source as a single line of numbers, whether its file is used whole or in parts."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emberward.data._indexed import IndexedReader
from emberward.data._manifest import Manifest, Stream
from emberward.data._tokenizer import Tokens
from emberward.findings import ConfigError


class TokenStream:
    """All documents of a stream laid end to end; a window is cut from it wherever it falls.

    [Note: packing]
    Samples are packed as for GPT: a window runs over the ends of documents, and each document ends with the
    end-of-document token. No label is masked for crossing such an end: to predict the first token of the next document
    after the end token is what a model does with no prompt. Only padding has weight 0.

    Where the stream is a part of a larger file, `segments` int64 [n, 2] lists (first token, number of tokens) of each
    piece in order.
    """

    def __init__(self, prefix: Path, segments: NDArray[np.int64] | None) -> None:
        self._reader = IndexedReader(prefix)
        self._firsts: NDArray[np.int64] = np.zeros(1, np.int64) if segments is None else segments[:, 0]
        lengths = np.array([self._reader.num_tokens]) if segments is None else segments[:, 1]
        self._ends: NDArray[np.int64] = np.cumsum(lengths, dtype=np.int64)
        self.num_tokens = int(self._ends[-1]) if len(self._ends) else 0

    def read_into(self, out: NDArray[np.int64], start: int) -> None:
        """Fill `out` with the tokens from `start` on; all of them must lie within the stream."""
        assert 0 <= start <= self.num_tokens - len(out), f"tokens {start}..{start + len(out)} of {self.num_tokens}"
        piece, filled = int(np.searchsorted(self._ends, start, side="right")), 0
        while filled < len(out):
            end = int(self._ends[piece])
            take = min(end - start, len(out) - filled)
            first = int(self._firsts[piece]) + start - self._piece_start(piece)
            out[filled : filled + take] = self._tokens(first, first + take)
            filled, start, piece = filled + take, start + take, piece + 1

    def _piece_start(self, piece: int) -> int:
        return int(self._ends[piece - 1]) if piece else 0

    def _tokens(self, start: int, stop: int) -> Tokens:
        return self._reader.tokens(start, stop)


def open_stream(manifest: Manifest, stream: Stream) -> TokenStream:
    """The tokens of `stream`. Raises D101 when its files are not there, damaged, or hold another number of tokens."""
    segments = None
    if stream.segments is not None:
        path = manifest.resolve(stream.segments)
        try:
            segments = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ConfigError(
                "a prepared file cannot be read", code="D101", where=str(path), found=str(error), next=_PREPARE_NEXT
            ) from error
    opened = TokenStream(manifest.resolve(stream.prefix), segments)
    if opened.num_tokens != stream.num_tokens:
        raise ConfigError(
            "a prepared file holds another number of tokens than its manifest says",
            code="D101",
            where=str(manifest.resolve(stream.prefix)),
            expected=f"{stream.num_tokens:,} tokens",
            found=f"{opened.num_tokens:,} tokens",
            next=_PREPARE_NEXT,
        )
    return opened


_PREPARE_NEXT = "delete the data cache; it is made anew at the next start"
