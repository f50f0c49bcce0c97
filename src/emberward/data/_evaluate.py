"""Evaluation sets, and a plan by which all ranks go through one and end together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emberward.data._batch import Batch
from emberward.data._manifest import Manifest
from emberward.data._stream import TokenStream, open_stream
from emberward.findings import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    """Who evaluates which sample of a set, and when.

    Every dp rank runs `num_micro_batches` micro-batches of `micro_batch` rows, so all take part in the same
    collectives and end together. Row j of micro-batch k of rank r is sample (k x dp + r) x micro_batch + j, or None, a
    row of padding with weight 0, where the set has ended. Each sample has one row in the whole plan.
    """

    num_samples: int
    dp: int
    micro_batch: int
    num_micro_batches: int

    def of_rank(self, dp_rank: int) -> list[list[int | None]]:
        """The rows of dp rank `dp_rank`: [num_micro_batches][micro_batch]."""
        return [
            [
                sample if sample < self.num_samples else None
                for sample in range(first * self.micro_batch, (first + 1) * self.micro_batch)
            ]
            for first in range(dp_rank, self.num_micro_batches * self.dp, self.dp)
        ]


def eval_batches(num_samples: int, dp: int, micro_batch: int, *, multiple: int = 1) -> EvalPlan:
    """The plan for a set of `num_samples` samples on `dp` ranks. Pure; every rank works it out alone.

    The number of micro-batches is raised to a multiple of `multiple`, which an interleaved schedule asks for (the
    number of pipeline stages). An empty set has none.
    """
    if num_samples < 0 or dp < 1 or micro_batch < 1 or multiple < 1:
        raise ValueError(f"no plan for {num_samples} samples, dp {dp}, micro-batch {micro_batch}, multiple {multiple}")
    needed = -(-num_samples // (dp * micro_batch))
    return EvalPlan(
        num_samples=num_samples,
        dp=dp,
        micro_batch=micro_batch,
        num_micro_batches=-(-needed // multiple) * multiple,
    )


class EvalSet:
    """A named set of samples that does not change from one evaluation to the next, nor with seed, dp or weights.

    The set's tokens are cut into windows as for training; the last one is filled up with the end-of-document token, at
    weight 0, so that each token but the first is a label once. With more windows than `max_samples`, that many of them
    are taken at even distances over the whole set.
    """

    def __init__(self, *, name: str, stream: TokenStream, seq_len: int, max_samples: int, eod: int) -> None:
        self.name = name
        self.seq_len = seq_len
        self._stream = stream
        self._eod = eod
        self._num_windows = -(-(stream.num_tokens - 1) // seq_len)
        self.num_samples = min(self._num_windows, max_samples)

    def batch(self, indices: Sequence[int | None]) -> Batch:
        """The samples with these numbers: tokens [len(indices), S + 1], mask [len(indices), S].

        None gives a row of end-of-document tokens with weight 0. Reads files.
        """
        tokens = np.full((len(indices), self.seq_len + 1), self._eod, dtype=np.int64)
        mask = np.zeros((len(indices), self.seq_len), dtype=np.float32)
        for row, index in enumerate(indices):
            if index is None:
                continue
            start = self._window(index) * self.seq_len
            length = min(self.seq_len + 1, self._stream.num_tokens - start)
            self._stream.read_into(tokens[row, :length], start)
            mask[row, : length - 1] = 1.0
        return Batch(tokens=tokens, mask=mask)

    def _window(self, index: int) -> int:
        """The window that sample `index` is."""
        if not 0 <= index < self.num_samples:
            raise IndexError(f"sample {index} of {self.num_samples} of evaluation set {self.name}")
        return index * self._num_windows // self.num_samples


def open_eval(manifest: Manifest, *, seq_len: int, max_samples: int) -> dict[str, EvalSet]:
    """The evaluation sets of `manifest` by name, in its order. Maps their files, reads no tokens.

    Raises D101 when a file is missing or damaged, or a set has fewer than two tokens.
    """
    assert manifest.tokenizer is not None, "the manifest is of images"
    sets: dict[str, EvalSet] = {}
    for entry in manifest.evaluation:
        stream = open_stream(manifest, entry)
        if stream.num_tokens < 2:
            raise ConfigError(
                f"evaluation set {entry.name} is too short for one sample",
                code="D101",
                where=entry.origin,
                expected="at least 2 tokens",
                found=f"{stream.num_tokens} tokens",
                next="give more text, or leave the set out",
            )
        sets[entry.name] = EvalSet(
            name=entry.name, stream=stream, seq_len=seq_len, max_samples=max_samples, eod=manifest.tokenizer.eod
        )
    return sets
