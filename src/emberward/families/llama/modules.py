"""Llama's blocks as torch modules (Touvron et al. 2023; Grattafiori et al. 2024). See `bloom/modules.py` for letters.

Positions rotate halves of a head, as transformers does (5.23, models/llama/modeling_llama.py).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from emberward.draws import Draws
from emberward.families._config import LlamaConfig, ModelConfig
from emberward.families.layers import (
    ColumnLinear,
    Linear,
    RMSNorm,
    RowLinear,
    TensorAxis,
    VocabEmbedding,
    enter,
    part_of,
    swiglu,
    token_loss,
)
from emberward.families.llama.describe import head_size

loss = token_loss


def build(config: ModelConfig, number: int, axis: TensorAxis | None) -> nn.Module:
    """See `Modules.build`."""
    if number == 0:
        return Embedding(config, axis)
    return Layer(config, axis) if number <= config.num_layers else Head(config, axis)


def rope_frequencies(config: LlamaConfig, head_size: int) -> Tensor:
    """Radians a position of each pair of a head, float32 [D / 2].

    With a factor, Llama 3.1's: wave lengths above `rope_positions` / `rope_low` turn slower by it, those below
    `rope_positions` / `rope_high` stay, and between them the two are blended.
    """
    turns = 1.0 / config.rope_theta ** (torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    if config.rope_factor is None:
        return turns
    low, high = config.rope_low, config.rope_high
    waves = config.rope_positions * turns / (2 * math.pi)
    share = ((waves - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - share) * turns / config.rope_factor + share * turns


class Embedding(nn.Module):
    """The look-up."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.vocab_size is not None
        self.embed = VocabEmbedding(part_of(config.vocab_size, axis), config.hidden, axis)

    def forward(self, ids_BS: Tensor, draws: Draws | None) -> Tensor:
        """The residual stream [B, T, H]."""
        return self.embed(ids_BS)


class Attention(nn.Module):
    """Causal self-attention with rotary positions over this rank's heads; query head j uses key head j // (N / N_kv).

    With more tp ranks than key heads, neighbours hold the same key and value head and their own query heads.
    """

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        self._keys = config.llama
        self._axis = axis
        self.head_size = head_size(config)
        self.num_heads = part_of(config.num_heads, axis)
        self.num_kv_heads = max(1, part_of(config.llama.num_kv_heads or config.num_heads, axis))
        width, kv_width = self.num_heads * self.head_size, self.num_kv_heads * self.head_size
        self.q = Linear(config.hidden, width, bias=False)
        self.k = Linear(config.hidden, kv_width, bias=False)
        self.v = Linear(config.hidden, kv_width, bias=False)
        self.out = RowLinear(width, config.hidden, axis, bias=False)
        self._turned: tuple[Tensor, Tensor] | None = None

    def turns(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [S, D] in the type of `like`; kept between calls."""
        if self._turned is None or self._turned[0].shape[0] != length or self._turned[0].dtype != like.dtype:
            with torch.no_grad():
                steps = torch.arange(length, dtype=torch.float32)
                angles = steps[:, None] * rope_frequencies(self._keys, self.head_size)
                angles = torch.cat((angles, angles), dim=-1).to(like.device)
                self._turned = angles.cos().to(like.dtype), angles.sin().to(like.dtype)
        return self._turned

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The attention's contribution to the residual stream, same shape as `x_BTH`."""
        x_BSH = enter(x_BTH, self._axis)
        batch, length, _ = x_BSH.shape
        q, k, v = (
            each.view(batch, length, -1, self.head_size).transpose(1, 2)
            for each in (self.q(x_BSH), self.k(x_BSH), self.v(x_BSH))
        )
        cos, sin = self.turns(length, q)
        q, k = (_rotate(each, cos, sin) for each in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.num_heads != self.num_kv_heads)
        return self.out(y.transpose(1, 2).reshape(batch, length, self.num_heads * self.head_size))


def _rotate(x_BNSD: Tensor, cos_SD: Tensor, sin_SD: Tensor) -> Tensor:
    first, second = x_BNSD.chunk(2, dim=-1)
    return x_BNSD * cos_SD + torch.cat((-second, first), dim=-1) * sin_SD


class FeedForward(nn.Module):
    """silu(gate x) times up x, and down."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.ffn_hidden is not None
        width = part_of(config.ffn_hidden, axis)
        self._axis = axis
        self.gate = Linear(config.hidden, width, bias=False)
        self.up = Linear(config.hidden, width, bias=False)
        self.down = RowLinear(width, config.hidden, axis, bias=False)

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The layer's contribution to the residual stream, same shape as `x_BTH`."""
        x_BSH = enter(x_BTH, self._axis)
        return self.down(swiglu(self.gate(x_BSH), self.up(x_BSH)))


class Layer(nn.Module):
    """One decoder layer, norms before their sub-layers."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden, eps=config.layer_norm_eps)
        self.attention = Attention(config, axis)
        self.mlp_norm = RMSNorm(config.hidden, eps=config.layer_norm_eps)
        self.mlp = FeedForward(config, axis)

    def forward(self, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """The residual stream after this layer."""
        x_BTH = x_BTH + self.attention(self.attention_norm(x_BTH))
        return x_BTH + self.mlp(self.mlp_norm(x_BTH))


class Head(nn.Module):
    """Norm and logits; the weight is the embedding's where `llama.is_tied` says so."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.vocab_size is not None
        self.final_norm = RMSNorm(config.hidden, eps=config.layer_norm_eps)
        self.head = ColumnLinear(config.hidden, part_of(config.vocab_size, axis), axis, bias=False)

    def forward(self, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """Logits [B, S, V]."""
        return self.head(self.final_norm(x_BTH))
