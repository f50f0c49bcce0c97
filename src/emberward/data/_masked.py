"""Text with some of its tokens hidden, for models that learn to name them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from emberward.data._batch import Batch
from emberward.draws import lanes, mix64_array

# Devlin et al. 2019 (BERT), section 3.1; Liu et al. 2019 (RoBERTa), section 2.3 take them over. The rest stays.
_REPLACED, _RANDOM = 0.8, 0.1
_LEVELS = 1 << 16
_DRAWS = 4
"""Draws of 16 bits for each token: whether it is chosen, what becomes of it, and two for a random one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """Which tokens are hidden, and by what.

    A share of the tokens is chosen, each by itself. Of those, 80% become `mask_id`, 10% another token and 10% stay;
    `specials`, `mask_id` among them, are neither chosen nor put in a token's place. `num_ids` is the tokenizer's size.
    """

    share: float
    mask_id: int
    specials: frozenset[int]
    num_ids: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskedBatch:
    """B samples of S tokens. `inputs` and `labels` int64 [B, S] before and after hiding, `mask` float32 [B, S]: 1 where
    a token was chosen, which is where the loss counts."""

    inputs: NDArray[np.int64]
    labels: NDArray[np.int64]
    mask: NDArray[np.float32]


class Text(Protocol):
    """Samples of text by number."""

    def batch(self, indices: Sequence[Any]) -> Batch:
        """The samples with these numbers, in this order. Reads files."""


class MaskedText:
    """The samples of `text` with tokens hidden: the first S of each sample's S + 1.

    What is hidden is a pure function of `key`, the sample's number and the token's place. A window of training text has
    another number in each epoch, and so other tokens hidden (dynamic masking).
    """

    def __init__(self, text: Text, masking: Masking, *, key: int, num_samples: int = 0) -> None:
        self.num_samples = num_samples
        self._text = text
        self._masking = masking
        self._key = key
        ordinary = np.ones(masking.num_ids, dtype=np.bool_)
        ordinary[[each for each in masking.specials if each < masking.num_ids]] = False
        self._ordinary = np.flatnonzero(ordinary)

    def batch(self, indices: Sequence[int | None]) -> MaskedBatch:
        """The samples with these numbers, in this order; None gives one of weight 0. Reads files."""
        batch, masking = self._text.batch(indices), self._masking
        labels = np.ascontiguousarray(batch.tokens[:, :-1])
        numbers = np.array([0 if index is None else index for index in indices], dtype=np.uint64)
        drawn = lanes(mix64_array(numbers ^ np.uint64(self._key)), _DRAWS * labels.shape[1])
        drawn = drawn.reshape(*labels.shape, _DRAWS)
        chosen = (drawn[..., 0] < round(masking.share * _LEVELS)) & ~np.isin(labels, list(masking.specials))
        is_replaced = chosen & (drawn[..., 1] < round(_REPLACED * _LEVELS))
        is_random = chosen & ~is_replaced & (drawn[..., 1] < round((_REPLACED + _RANDOM) * _LEVELS))
        wide = drawn[..., 2].astype(np.uint64) * np.uint64(_LEVELS) + drawn[..., 3]
        others = self._ordinary[(wide * np.uint64(len(self._ordinary))) >> np.uint64(32)]
        inputs = np.where(is_replaced, masking.mask_id, np.where(is_random, others, labels))
        return MaskedBatch(inputs=inputs, labels=labels, mask=batch.mask * chosen)
