"""Causal attention with ALiBi in one kernel, by a mask of scores or without one. Needs torch.

[Note: folded ALiBi]
ALiBi adds slope x (j - i) to the score of query i and key j (Press et al. 2022, section 3). A softmax does not see what
is the same for all keys of a query, so slope x j does as well, and that is a product of a number of the head and one of
the key. Both become further columns of q and k: the kernel then needs no S x S mask, skips the half above the diagonal,
and any fused kernel will do. Positions are counted from the middle and written as a multiple of 64 and a rest, slopes
as two parts, so that each factor is whole in 16-bit types up to 32,768 positions; kernels add products up in float32.
The columns cost more than they save on short samples: `ALIBI_FOLDED_FROM`. `flex_attention` has no backward on a CPU
(torch 2.13) and needs a compiler.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from emberward.families._sizes import ALIBI_ADDED_WIDTH, folds_alibi

_STEP = 64


class Alibi:
    """Causal attention of heads with these slopes. What it keeps between calls is for the last call's length."""

    def __init__(self, slopes: Sequence[float]) -> None:
        self._slopes = tuple(slopes)
        self._kept: tuple[object, tuple[Tensor, ...]] | None = None

    def __call__(self, q_BNSD: Tensor, k_BNSD: Tensor, v_BNSD: Tensor) -> Tensor:
        """[B, N, S, D], of as many heads as there are slopes."""
        attend = self.folded if folds_alibi(q_BNSD.shape[-2]) else self.masked
        return attend(q_BNSD, k_BNSD, v_BNSD)

    def masked(self, q_BNSD: Tensor, k_BNSD: Tensor, v_BNSD: Tensor) -> Tensor:
        """The same by a mask [1, N, S, S]."""
        (mask,) = self._made(self._mask, q_BNSD)
        return F.scaled_dot_product_attention(q_BNSD, k_BNSD, v_BNSD, attn_mask=mask)

    def folded(self, q_BNSD: Tensor, k_BNSD: Tensor, v_BNSD: Tensor) -> Tensor:
        """The same without a mask. See [Note: folded ALiBi]."""
        batch, heads, length, width = q_BNSD.shape
        of_heads, of_keys = self._made(self._columns, q_BNSD)
        q = torch.cat((q_BNSD, of_heads.expand(batch, heads, length, -1)), dim=-1)
        k = torch.cat((k_BNSD, of_keys.expand(batch, heads, length, -1)), dim=-1)
        v = F.pad(v_BNSD, (0, ALIBI_ADDED_WIDTH))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / math.sqrt(width))
        return y[..., :width]

    def _made(self, make: Callable[[Tensor], tuple[Tensor, ...]], like: Tensor) -> tuple[Tensor, ...]:
        key = (make, like.shape[-2:], like.dtype, like.device)
        if self._kept is None or self._kept[0] != key:
            with torch.no_grad():
                self._kept = key, make(like)
        return self._kept[1]

    def _mask(self, like: Tensor) -> tuple[Tensor, ...]:
        steps = torch.arange(like.shape[-2], device=like.device, dtype=torch.float32)
        mask = self._heads(like).view(1, -1, 1, 1) * (steps - steps[:, None])
        return (mask.masked_fill(steps[:, None] < steps, float("-inf")).to(like.dtype),)

    def _columns(self, like: Tensor) -> tuple[Tensor, ...]:
        """[1, N, 1, E] of the heads and [1, 1, S, E] of the keys; what is over of E is zeros."""
        length, width = like.shape[-2:]
        # The kernel scales what is q's and k's own.
        slopes = self._heads(like) * math.sqrt(width)
        whole = slopes.to(like.dtype)
        rest = (slopes - whole.float()).to(like.dtype)
        places = torch.arange(length, device=like.device, dtype=torch.float32) - length // 2
        fine = places % _STEP
        of_heads = F.pad(torch.stack((whole, whole, rest, rest), dim=-1), (0, ALIBI_ADDED_WIDTH - 4))
        coarse = places - fine
        of_keys = F.pad(torch.stack((coarse, fine, coarse, fine), dim=-1), (0, ALIBI_ADDED_WIDTH - 4))
        return of_heads[None, :, None, :], of_keys[None, None].to(like.dtype)

    def _heads(self, like: Tensor) -> Tensor:
        return torch.tensor(self._slopes, device=like.device)
