"""What a rank trains on or evaluates at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """B samples of S + 1 tokens.

    `tokens` int64 [B, S + 1]: inputs are [:, :-1], labels [:, 1:]. `mask` float32 [B, S]: the weight of each label in
    the loss, 1 for a real token and 0 for padding. The sum of `mask` is the number of tokens that count. See
    [Note: packing].
    """

    tokens: NDArray[np.int64]
    mask: NDArray[np.float32]
