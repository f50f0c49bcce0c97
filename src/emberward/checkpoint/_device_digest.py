"""Digests of shards where they lie, without a copy to the host. Needs torch.

The same numbers as `digest_of` gives, in torch's int64, which wraps as the definition's sum modulo 2^64 does: see
[Note: tensor digest].
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from emberward.checkpoint._digest import weights
from emberward.checkpoint._part import UintArray
from emberward.checkpoint._tensors import Shard
from emberward.layout import Box

_HOST_CHUNK_WORDS = 1 << 16
_DEVICE_CHUNK_WORDS = 1 << 24
"""Words widened to 64 bits at a time: within a core's cache on the host, 128 MiB of scratch on a device."""
_NARROW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32}
_LOW = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: 0xFFFFFFFF}


class DeviceDigests:
    """Takes digests of shards on the device where they lie; keeps the weights between calls."""

    def __init__(self) -> None:
        self._weights: dict[Hashable, Tensor] = {}

    def __call__(self, shards: Sequence[Shard]) -> Tensor:
        """Each shard's share of its tensor's digest, int64 [len(shards)] on their device: two's complement words.

        All shards lie on one device, and there is at least one. It does not communicate and does not wait for the
        device; it reads each byte once.
        """
        return torch.stack([self._digest(shard) for shard in shards])

    def _digest(self, shard: Shard) -> Tensor:
        tensor = shard.tensor.detach()
        device, size = tensor.device, tensor.element_size()
        box = shard.box or ((0, 1),)
        outer = self._kept(("rows", box[:-1], device), lambda: _row_weights(box[:-1]), device)
        inner = self._kept(("last", len(box), box[-1], size, device), lambda: _last_weights(box, size), device)
        rows = tensor.reshape(-1).view(_NARROW[size]).reshape(len(outer), len(inner))
        # The longer side is summed first: sums over short rows are slow.
        if len(inner) < len(outer):
            rows, outer, inner = rows.t(), inner, outer
        return _weighted_sum(rows, outer, inner, _LOW[size])

    def _kept(self, key: Hashable, make: Callable[[], UintArray], device: torch.device) -> Tensor:
        if key not in self._weights:
            self._weights[key] = torch.from_numpy(make().view(np.int64).copy()).to(device)
        return self._weights[key]


def _weighted_sum(rows: Tensor, outer: Tensor, inner: Tensor, low: int) -> Tensor:
    """outer @ rows @ inner in wrapping int64, an int64 of no dims; in chunks of bounded scratch."""
    chunk = _HOST_CHUNK_WORDS if rows.device.type == "cpu" else _DEVICE_CHUNK_WORDS
    num_rows = max(1, chunk // len(inner))
    total = torch.zeros((), dtype=torch.int64, device=rows.device)
    for top in range(0, len(outer), num_rows):
        for left in range(0, len(inner), chunk):
            wide = rows[top : top + num_rows, left : left + chunk].to(torch.int64).bitwise_and_(low)
            sums = wide.mul_(inner[left : left + chunk]).sum(1)
            total = total + sums.mul_(outer[top : top + num_rows]).sum()
    return total


def _row_weights(ranges: Box) -> NDArray[np.uint64]:
    """Products of the weights of all dims but the last, row-major; [1] for a tensor of one dim."""
    product = np.ones(1, dtype=np.uint64)
    for dim, (start, stop) in enumerate(ranges):
        product = np.multiply.outer(product, weights(dim, start, stop)).reshape(-1)
    return product


def _last_weights(box: Box, element_bytes: int) -> NDArray[np.uint64]:
    """The weights of the last dim's words: for elements of 8 bytes those of both halves, low before high."""
    last = weights(len(box) - 1, *box[-1])
    return np.multiply.outer(last, weights(len(box), 0, 2)).reshape(-1) if element_bytes == 8 else last
