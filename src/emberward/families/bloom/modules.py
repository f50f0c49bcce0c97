"""BLOOM's blocks as torch modules (Le Scao et al. 2022): ALiBi, embedding norm, GELU in its tanh form, tied head.

[Note: shape letters]
B samples of a micro-batch, S positions of a sample, T positions of this tensor-parallel rank's part of the sample
(S / tp with sequence parallelism, else S), H width of the residual stream, N heads of this rank, D width of a head,
V vocabulary entries of this rank.
"""

import math

from torch import Tensor, nn
from torch.nn import functional as F

from emberward.draws import Draws
from emberward.families._config import ModelConfig
from emberward.families.alibi import Alibi
from emberward.families.layers import (
    ColumnLinear,
    RowLinear,
    TensorAxis,
    VocabEmbedding,
    part_of,
    token_loss,
)

loss = token_loss


def build(config: ModelConfig, number: int, axis: TensorAxis | None) -> nn.Module:
    """See `Modules.build`."""
    if number == 0:
        return Embedding(config, axis)
    return Layer(config, axis) if number <= config.num_layers else Head(config, axis)


def alibi_slopes(num_heads: int) -> list[float]:
    """One slope a head. Press et al. 2022, section 3; for head counts that are no power of two, as BLOOM does."""
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
    slopes = [base ** (1 + head) for head in range(closest)]
    extra_base = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
    slopes += [extra_base ** (1 + 2 * head) for head in range(num_heads - closest)]
    return slopes


class Embedding(nn.Module):
    """Look-up and norm."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.vocab_size is not None
        self.embed = VocabEmbedding(part_of(config.vocab_size, axis), config.hidden, axis)
        self.embed_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)

    def forward(self, ids_BS: Tensor, draws: Draws | None) -> Tensor:
        """The residual stream [B, T, H]."""
        return self.embed_norm(self.embed(ids_BS))


class Attention(nn.Module):
    """Causal self-attention with ALiBi over this rank's heads."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        self.head_size = config.hidden // config.num_heads
        self.num_heads = part_of(config.num_heads, axis)
        first = 0 if axis is None else axis.group_rank * self.num_heads
        slopes = alibi_slopes(config.num_heads)[first : first + self.num_heads]
        width = self.num_heads * self.head_size
        # Rows of qkv are grouped by head (q, k, v of head 0, of head 1, ...), as BLOOM stores them: a split by rows
        # is a split by heads.
        self.qkv = ColumnLinear(config.hidden, 3 * width, axis)
        self.out = RowLinear(width, config.hidden, axis)
        self._attend = Alibi(slopes)

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The attention's contribution to the residual stream, same shape as `x_BTH`."""
        mixed = self.qkv(x_BTH)
        batch, length, _ = mixed.shape
        q, k, v = mixed.view(batch, length, self.num_heads, 3, self.head_size).permute(3, 0, 2, 1, 4).unbind(0)
        y = self._attend(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, length, self.num_heads * self.head_size))


class FeedForward(nn.Module):
    """Two linear layers around a GELU (tanh form, as BLOOM)."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.ffn_hidden is not None
        width = part_of(config.ffn_hidden, axis)
        self.up = ColumnLinear(config.hidden, width, axis)
        self.down = RowLinear(width, config.hidden, axis)

    def forward(self, x_BTH: Tensor) -> Tensor:
        """The layer's contribution to the residual stream, same shape as `x_BTH`."""
        return self.down(F.gelu(self.up(x_BTH), approximate="tanh"))


class Layer(nn.Module):
    """One decoder layer, norms before their sub-layers."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.attention = Attention(config, axis)
        self.mlp_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.mlp = FeedForward(config, axis)

    def forward(self, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """The residual stream after this layer."""
        x_BTH = x_BTH + self.attention(self.attention_norm(x_BTH))
        return x_BTH + self.mlp(self.mlp_norm(x_BTH))


class Head(nn.Module):
    """Norm and logits; the weight is the embedding's (tied)."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.vocab_size is not None
        self.final_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.head = ColumnLinear(config.hidden, part_of(config.vocab_size, axis), axis, bias=False)

    def forward(self, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """Logits [B, S, V]."""
        return self.head(self.final_norm(x_BTH))
