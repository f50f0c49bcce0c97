"""The training data: which tokens the n-th sample of a run is made of."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from emberward.data._batch import Batch
from emberward.data._blend import Blend
from emberward.data._manifest import Manifest, Stream
from emberward.data._order import Order, SampleOrigin
from emberward.data._stream import TokenStream, open_stream
from emberward.findings import ConfigError


class TrainData:
    """Samples by number, the same on every rank and in every run of the same data, seed and sequence length.

    The tokens of a source are cut into windows of S + 1 tokens that overlap by one, (tokens - 1) // S of them; the
    fewer than S tokens left at the end are in no window. Which sample is which window: see `_order.py` [Note: order].
    """

    def __init__(
        self, *, names: Sequence[str], streams: Sequence[TokenStream], blend: Blend, seed: int, seq_len: int
    ) -> None:
        self._streams = tuple(streams)
        self.seq_len = seq_len
        windows = [(stream.num_tokens - 1) // seq_len for stream in streams]
        self._order = Order(names=names, sizes=windows, blend=blend, seed=seed)

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, in the order of the recipe."""
        return self._order.names

    @property
    def windows(self) -> tuple[int, ...]:
        """Samples in one epoch of each source."""
        return self._order.sizes

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of samples of each source, as the blend uses it."""
        return self._order.shares

    def batch(self, indices: Sequence[int]) -> Batch:
        """The samples with these numbers, in this order: tokens [len(indices), S + 1], mask all ones. Reads files."""
        sources, _, windows = self._order.locate(np.asarray(indices, dtype=np.int64))
        tokens = np.empty((len(sources), self.seq_len + 1), dtype=np.int64)
        for row, (source, window) in enumerate(zip(sources.tolist(), windows.tolist(), strict=True)):
            self._streams[source].read_into(tokens[row], window * self.seq_len)
        return Batch(tokens=tokens, mask=np.ones((len(sources), self.seq_len), dtype=np.float32))

    def sample(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Sample `index`: tokens int64 [S + 1] and mask float32 [S]. Reads files."""
        batch = self.batch([index])
        return batch.tokens[0], batch.mask[0]

    def origins(self, indices: Sequence[int]) -> list[SampleOrigin]:
        """Where each of the samples comes from; reads no tokens."""
        return self._order.origins(indices)


def open_train(manifest: Manifest, *, seed: int, seq_len: int) -> TrainData:
    """The training data of `manifest`. Maps its files, reads no tokens.

    Raises D101 when a file is missing or damaged, or when a source has fewer than seq_len + 1 tokens.
    """
    streams = []
    for entry in manifest.train:
        stream = open_stream(manifest, entry)
        _require_window(entry, stream.num_tokens, seq_len)
        streams.append(stream)
    return TrainData(
        names=[entry.name for entry in manifest.train],
        streams=streams,
        blend=Blend(tuple(entry.weight for entry in manifest.train)),
        seed=seed,
        seq_len=seq_len,
    )


def step_indices(
    *, consumed_samples: int, global_batch: int, micro_batch: int, dp: int, dp_rank: int
) -> Iterator[range]:
    """The sample numbers of each micro-batch of one step, for one rank of dp.

    All ranks together get consumed_samples ... consumed_samples + global_batch - 1, each once, whatever dp is:
    micro-batch a of dp rank r begins at consumed_samples + (a x dp + r) x micro_batch, as Megatron-LM's sampler
    (``megatron/training/datasets/data_samplers.py``, MegatronPretrainingSampler). `global_batch` must be a multiple of
    micro_batch x dp.
    """
    if global_batch % (micro_batch * dp) != 0:
        raise ValueError(f"global batch {global_batch} is no multiple of micro-batch {micro_batch} x dp {dp}")
    for accumulation in range(global_batch // (micro_batch * dp)):
        start = consumed_samples + (accumulation * dp + dp_rank) * micro_batch
        yield range(start, start + micro_batch)


def _require_window(entry: Stream, num_tokens: int, seq_len: int) -> None:
    """Raise D101 when a source is too short for one sample."""
    if num_tokens < seq_len + 1:
        raise ConfigError(
            f"source {entry.name} is too short for one sample",
            code="D101",
            where=entry.origin,
            expected=f"at least {seq_len + 1:,} tokens (model.seq_len {seq_len:,} + 1)",
            found=f"{num_tokens:,} tokens",
            next="give more text, lower model.seq_len, or set data.held_out=0",
        )
