"""RoBERTa's blocks as torch modules (Liu et al. 2019), equal to transformers' RobertaForMaskedLM (5.23).

For letters see `bloom/modules.py` [Note: shape letters]. As in transformers without an attention mask, padding is
attended; its id has no position of its own, and takes no gradient from the look-ups.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from emberward.draws import Draws
from emberward.families._config import ModelConfig
from emberward.families.dropout import drop
from emberward.families.layers import (
    ColumnLinear,
    Linear,
    RowLinear,
    TensorAxis,
    VocabEmbedding,
    enter,
    part_of,
    token_loss,
)

loss = token_loss


def build(config: ModelConfig, number: int, axis: TensorAxis | None) -> nn.Module:
    """See `Modules.build`."""
    if number == 0:
        return Embeddings(config, axis)
    return Layer(config, number, axis) if number <= config.num_layers else Head(config, axis)


def positions_of(ids_BS: Tensor, pad_id: int) -> Tensor:
    """Row of the table for each token, int64 [B, S]: they are counted from `pad_id` + 1 on, and padding has `pad_id`.

    Any token's depends on all before it: the whole row is needed.
    """
    is_token = ids_BS != pad_id
    return is_token.cumsum(1) * is_token + pad_id


def first_position(length: int, axis: TensorAxis | None) -> int:
    """The number of the first of this rank's `length` positions in the sample."""
    return axis.group_rank * length if axis is not None and axis.sequence_parallel else 0


class DroppedNorm(nn.Module):
    """Dropout of a branch before it joins the stream, and the norm behind the sum."""

    def __init__(self, config: ModelConfig, into: int, place: tuple[int, str], axis: TensorAxis | None) -> None:
        super().__init__()
        self.dense = RowLinear(into, config.hidden, axis)
        self.LayerNorm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self._place, self._rate, self._axis = place, config.dropout, axis

    def forward(self, branch: Tensor, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """The stream behind the branch, whose inside is `branch`."""
        first = first_position(x_BTH.shape[1], self._axis) * x_BTH.shape[2]
        return self.LayerNorm(drop(self.dense(branch), draws, self._place, self._rate, first=first) + x_BTH)


class Embeddings(nn.Module):
    """Words, positions and the one type of tokens; norm and dropout."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        keys, width = config.roberta, config.hidden
        assert config.vocab_size is not None and keys.num_positions is not None
        self.word_embeddings = VocabEmbedding(part_of(config.vocab_size, axis), width, axis, pad_id=keys.pad_id)
        self.position_embeddings = nn.Embedding(keys.num_positions, width, padding_idx=keys.pad_id)
        self.token_type_embeddings = nn.Embedding(keys.num_token_types, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self._pad_id, self._rate, self._axis = keys.pad_id, config.dropout, axis

    def forward(self, ids_BS: Tensor, draws: Draws | None) -> Tensor:
        """The stream [B, T, H]."""
        words = self.word_embeddings(ids_BS)
        first = first_position(words.shape[1], self._axis)
        positions = positions_of(ids_BS, self._pad_id)[:, first : first + words.shape[1]]
        x = self.LayerNorm(words + self.token_type_embeddings.weight[0] + self.position_embeddings(positions))
        return drop(x, draws, (0, "embeddings"), self._rate, first=first * x.shape[2])


class SelfAttention(nn.Module):
    """Attention of all positions to all, over this rank's heads."""

    def __init__(self, config: ModelConfig, number: int, axis: TensorAxis | None) -> None:
        super().__init__()
        self._num_heads = part_of(config.num_heads, axis)
        self._head_size = config.hidden // config.num_heads
        width = self._num_heads * self._head_size
        self.query = Linear(config.hidden, width)
        self.key = Linear(config.hidden, width)
        self.value = Linear(config.hidden, width)
        self._place, self._rate = (number, "attention"), config.attention_dropout
        self._first_head = 0 if axis is None else axis.group_rank * self._num_heads

    def forward(self, x_BSH: Tensor, draws: Draws | None) -> Tensor:
        """What its heads give, side by side: [B, S, N x D]."""
        batch, length, _ = x_BSH.shape
        q, k, v = (
            each(x_BSH).view(batch, length, self._num_heads, self._head_size).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        if draws is None or self._rate == 0:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            shares = torch.softmax(torch.matmul(q * self._head_size**-0.5, k.transpose(-2, -1)), dim=-1)
            first = self._first_head * length * length
            y = torch.matmul(drop(shares, draws, self._place, self._rate, first=first), v)
        return y.transpose(1, 2).reshape(batch, length, self._num_heads * self._head_size)


class Layer(nn.Module):
    """One encoder layer, a norm behind each of its two additions."""

    def __init__(self, config: ModelConfig, number: int, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.ffn_hidden is not None
        heads_width = part_of(config.num_heads, axis) * (config.hidden // config.num_heads)
        inside = part_of(config.ffn_hidden, axis)
        self.attention = nn.ModuleDict(
            {
                "self": SelfAttention(config, number, axis),
                "output": DroppedNorm(config, heads_width, (number, "attention output"), axis),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": ColumnLinear(config.hidden, inside, axis)})
        self.output = DroppedNorm(config, inside, (number, "output"), axis)
        self._axis = axis

    def forward(self, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """The stream after this layer."""
        heads = self.attention["self"](enter(x_BTH, self._axis), draws)
        x_BTH = self.attention["output"](heads, x_BTH, draws)
        return self.output(F.gelu(self.intermediate["dense"](x_BTH)), x_BTH, draws)


class Head(nn.Module):
    """A transform of the stream, and logits; the decoder's weight is the table of words, its bias is its own."""

    def __init__(self, config: ModelConfig, axis: TensorAxis | None) -> None:
        super().__init__()
        assert config.vocab_size is not None
        num_rows = part_of(config.vocab_size, axis)
        self.dense = Linear(config.hidden, config.hidden)
        self.layer_norm = nn.LayerNorm(config.hidden, eps=config.layer_norm_eps)
        self.decoder = Linear(config.hidden, num_rows, bias=False)
        self.bias = nn.Parameter(torch.empty(num_rows))
        self._axis = axis

    def forward(self, x_BTH: Tensor, draws: Draws | None) -> Tensor:
        """Logits [B, S, V]."""
        x_BTH = self.layer_norm(F.gelu(self.dense(x_BTH)))
        return self.decoder.linear(enter(x_BTH, self._axis), self.bias)
