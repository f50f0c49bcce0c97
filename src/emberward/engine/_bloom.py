"""The BLOOM-style decoder: ALiBi positions, embedding layer norm, tied embeddings, GELU (Le Scao et al. 2022).

[Note: shape letters]
B samples of a micro-batch, S positions of a sample, T positions of this tensor-parallel rank's part of the sample
(S / tp with sequence parallelism, else S), H width of the residual stream, N heads of this rank, D width of a head,
V vocabulary entries of this rank.

A stage holds a run of layers, plus the embedding if it is the first and the head if it is the last. Modules know
nothing of parallelism: `_tensor_parallel.py` swaps the forward of the few that take part in it. Parameter names are
global (``blocks.7.mlp.up.weight`` on whichever stage layer 7 lies), so that a checkpoint fits every layout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomShape:
    """Sizes of the whole model."""

    num_layers: int
    hidden: int
    num_heads: int
    ffn_hidden: int
    vocab_size: int
    seq_len: int
    layer_norm_eps: float
    init_std: float
    recompute: bool = False

    @property
    def head_size(self) -> int:
        """Width of an attention head."""
        return self.hidden // self.num_heads


def alibi_slopes(num_heads: int) -> list[float]:
    """One slope a head. Press et al. 2022, section 3; for head counts that are no power of two, as BLOOM does."""
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
    slopes = [base ** (1 + head) for head in range(closest)]
    extra_base = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
    slopes += [extra_base ** (1 + 2 * head) for head in range(num_heads - closest)]
    return slopes


class Attention(nn.Module):
    """Causal self-attention with ALiBi. `first_head` is set by tensor parallelism: this rank's heads begin there."""

    def __init__(self, shape: BloomShape) -> None:
        super().__init__()
        self.head_size = shape.head_size
        self.slopes = alibi_slopes(shape.num_heads)
        self.first_head = 0
        # Rows of qkv are grouped by head (q, k, v of head 0, of head 1, ...), as BLOOM stores them: a split by rows
        # is a split by heads.
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self._bias: Tensor | None = None

    def bias(self, num_heads: int, length: int, like: Tensor) -> Tensor:
        """ALiBi plus the causal mask, [1, N, S, S]; kept between calls."""
        if self._bias is None or self._bias.shape[-1] != length or self._bias.dtype != like.dtype:
            slopes = self.slopes[self.first_head : self.first_head + num_heads]
            with torch.no_grad():
                steps = torch.arange(length, device=like.device, dtype=torch.float32)
                bias = torch.tensor(slopes, device=like.device).view(1, -1, 1, 1) * (steps - steps[:, None])
                bias = bias.masked_fill(steps[:, None] < steps, float("-inf"))
            self._bias = bias.to(like.dtype)
        return self._bias

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The attention's contribution to the residual stream, same shape as `x_BTH`."""
        mixed = self.qkv(x_BTH)
        batch, length, width = mixed.shape
        num_heads = width // (3 * self.head_size)
        q, k, v = mixed.view(batch, length, num_heads, 3, self.head_size).permute(3, 0, 2, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(num_heads, length, q))
        return self.out(y.transpose(1, 2).reshape(batch, length, num_heads * self.head_size))


class FeedForward(nn.Module):
    """Two linear layers around a GELU (tanh form, as BLOOM)."""

    def __init__(self, shape: BloomShape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.hidden, shape.ffn_hidden)
        self.down = nn.Linear(shape.ffn_hidden, shape.hidden)

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The layer's contribution to the residual stream, same shape as `x_BTH`."""
        return self.down(F.gelu(self.up(x_BTH), approximate="tanh"))


class Block(nn.Module):
    """One decoder layer, norms before their sub-layers."""

    def __init__(self, shape: BloomShape) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.hidden, eps=shape.layer_norm_eps)
        self.attention = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.hidden, eps=shape.layer_norm_eps)
        self.mlp = FeedForward(shape)

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The residual stream after this layer."""
        x_BTH = x_BTH + self.attention(self.attention_norm(x_BTH))
        return x_BTH + self.mlp(self.mlp_norm(x_BTH))


class Head(nn.Module):
    """Logits from the embedding's own weight (tied)."""

    def __init__(self, weight: nn.Parameter) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x_BTH: Tensor) -> Tensor:
        """Logits [B, S, V]."""
        return F.linear(x_BTH, self.weight)


class BloomStage(nn.Module):
    """Layers `layers` of the model, with the embedding on the first stage and the head on the last."""

    TIED = "embed.weight"

    def __init__(self, shape: BloomShape, layers: Sequence[int], *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.shape = shape
        self.is_first = is_first
        self.is_last = is_last
        if is_first:
            # Draws no values of its own: see `_asked_for.py` [Note: what a layout does not need].
            self.embed = nn.Embedding.from_pretrained(torch.empty(shape.vocab_size, shape.hidden), freeze=False)
            self.embed_norm = nn.LayerNorm(shape.hidden, eps=shape.layer_norm_eps)
        self.blocks = nn.ModuleDict({str(layer): Block(shape) for layer in layers})
        if is_last:
            tied = self.embed.weight if is_first else nn.Parameter(torch.empty(shape.vocab_size, shape.hidden))
            self.final_norm = nn.LayerNorm(shape.hidden, eps=shape.layer_norm_eps)
            self.head = Head(cast(nn.Parameter, tied))

    def forward(self, x: Tensor) -> Tensor:
        """Token ids [B, S] on the first stage, else the residual stream [B, T, H]; gives the residual stream, or
        logits [B, S, V] on the last stage."""
        if self.is_first:
            x = self.embed_norm(self.embed(x))
        for block in self.blocks.values():
            if self.shape.recompute and torch.is_grad_enabled():
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(self.final_norm(x)) if self.is_last else x


def canonical_name(name: str) -> str:
    """The parameter's name in a checkpoint: the tied head is the embedding."""
    return BloomStage.TIED if name == "head.weight" else name


def init_std_of(name: str, shape: BloomShape) -> float | None:
    """Standard deviation with which a parameter starts; None: it starts as a constant (see `init_constant`).

    Projections back into the residual stream start smaller by sqrt(2 x layers), as in Megatron-LM.
    """
    if "norm" in name or name.endswith(".bias"):
        return None
    if name.endswith((".out.weight", ".down.weight")):
        return shape.init_std / math.sqrt(2 * shape.num_layers)
    return shape.init_std


def init_constant(name: str) -> float:
    """Norm weights start at 1, biases at 0."""
    return 1.0 if name.endswith("norm.weight") else 0.0
