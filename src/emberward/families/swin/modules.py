"""Swin's blocks as torch modules (Liu et al. 2021), equal to transformers' SwinForImageClassification (5.23).

[Note: letters of image shapes]
B samples of a micro-batch, T tokens of a sample, P rows and columns of them padded to whole windows, W windows of a
sample, M rows and columns of a window, C width of the stream, N heads of this rank, D width of a head.

Drop path leaves out the attention branch alone, as transformers; Microsoft's code and LiBai leave out either branch.
Padding is attended, as transformers; Microsoft's code has none. Heads that tp does not divide are cut unevenly: each
rank computes its own, and the sum over tp of their projections is that of one rank.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from emberward.draws import Draws
from emberward.families._config import ModelConfig
from emberward.families.dropout import drop, drop_samples
from emberward.families.layers import Linear, RowLinear, TensorAxis, enter
from emberward.families.swin.describe import SwinLayer, ffn_of, stem_side, swin_layers
from emberward.layout import chunk

STEM_EPS = 1e-5
"""What the norms of the stem and of the merging add, whatever the configuration says, as transformers."""
SHUT = -100.0
"""Added to the score of two tokens that lie together in a moved window and not in the image."""


def build(config: ModelConfig, number: int, axis: TensorAxis | None) -> nn.Module:
    """See `Modules.build`."""
    layers = swin_layers(config)
    if number == 0:
        return Stem(config)
    return Layer(config, layers[number - 1], number, axis) if number <= len(layers) else Head(config, layers[-1])


def loss(outputs: Tensor, labels: Tensor, weights: Tensor, axis: TensorAxis | None) -> tuple[Tensor, Tensor]:
    """See `Modules.loss`: cross entropy with `labels` as shares of the classes [B, classes]."""
    del axis
    losses = F.cross_entropy(outputs.float(), labels, reduction="none")
    return (losses * weights).sum(), weights.sum()


def window_parts(x_BPPC: Tensor, window: int) -> Tensor:
    """[B, P, P, C] -> [B, W, M x M, C]."""
    batch, side, _, width = x_BPPC.shape
    count = side // window
    x = x_BPPC.view(batch, count, window, count, window, width)
    return x.transpose(2, 3).reshape(batch, count * count, window * window, width)


def window_whole(x_BWMC: Tensor, side: int) -> Tensor:
    """The inverse of `window_parts`: [B, P, P, C] with P = `side`."""
    batch, num_windows, area, width = x_BWMC.shape
    count, window = round(num_windows**0.5), round(area**0.5)
    x = x_BWMC.view(batch, count, count, window, window, width)
    return x.transpose(2, 3).reshape(batch, side, side, width)


def position_index(window: int, device: torch.device) -> Tensor:
    """Row of the table for each pair of tokens of a window, query first: int64 [M x M x M x M]."""
    steps = torch.arange(window, device=device)
    rows, columns = steps.repeat_interleave(window), steps.repeat(window)
    span = 2 * window - 1
    down, right = rows[:, None] - rows, columns[:, None] - columns
    return ((down + window - 1) * span + right + window - 1).flatten()


def shift_mask(layer: SwinLayer, device: torch.device, dtype: torch.dtype) -> Tensor:
    """0 for two tokens of a moved window that are neighbours in the image, else SHUT: [W, 1, M x M, M x M]."""
    steps = torch.arange(layer.padded_side, device=device)
    cuts = (layer.padded_side - layer.window, layer.padded_side - layer.shift)
    area = (steps >= cuts[0]).long() + (steps >= cuts[1]).long()
    region = (area[:, None] * 3 + area)[None, :, :, None]
    parts = window_parts(region, layer.window)[0, :, :, 0]
    return torch.where(parts[:, None, :] != parts[:, :, None], SHUT, 0.0).to(dtype)[:, None]


class Dense(nn.Module):
    """A layer under the name `dense`, where transformers' files have it."""

    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, x: Tensor) -> Tensor:
        """What the layer gives."""
        return self.dense(x)


class Stem(nn.Module):
    """Patches to tokens."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        projection = Patches(config.num_channels, config.hidden, config.patch_size)
        self.patch_embeddings = nn.ModuleDict({"projection": projection})
        self.norm = nn.LayerNorm(config.hidden, eps=STEM_EPS)
        self._config = config

    def forward(self, images: Tensor, draws: Draws | None) -> Tensor:
        """[B, T, C] of images [B, channels, rows, columns]."""
        side = stem_side(self._config) * self._config.patch_size
        missing = side - images.shape[-1]
        if missing:
            images = F.pad(images, (0, missing, 0, missing))
        tokens = self.norm(self.patch_embeddings["projection"](images).flatten(2).transpose(1, 2))
        return drop(tokens, draws, (0, "stem"), self._config.dropout)


class Patches(nn.Module):
    """A linear layer over patches, as a convolution whose stride is its kernel."""

    def __init__(self, channels: int, width: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, channels, size, size))
        self.bias = nn.Parameter(torch.empty(width))

    def forward(self, images: Tensor) -> Tensor:
        """[B, width, rows of patches, columns of patches]."""
        return F.conv2d(images.to(self.weight.dtype), self.weight, self.bias, stride=self.weight.shape[-1])


class SelfAttention(nn.Module):
    """Attention within windows over this rank's heads."""

    def __init__(self, config: ModelConfig, layer: SwinLayer, number: int, axis: TensorAxis | None) -> None:
        super().__init__()
        self._first, stop = (0, layer.heads) if axis is None else chunk(layer.heads, axis.size, axis.group_rank)
        self._num = stop - self._first
        self._head_size = layer.width // layer.heads
        self._layer, self._number, self._rate = layer, number, config.attention_dropout
        width = self._num * self._head_size
        self.relative_position_bias_table = nn.Parameter(torch.empty((2 * config.window - 1) ** 2, self._num))
        self.query = Linear(layer.width, width)
        self.key = Linear(layer.width, width)
        self.value = Linear(layer.width, width)
        self._index: Tensor | None = None
        self._mask: Tensor | None = None

    def forward(self, x_BWMC: Tensor, draws: Draws | None) -> Tensor:
        """[B, W, M x M, N x D]: what each head gives, side by side."""
        batch, num_windows, area, _ = x_BWMC.shape
        q, k, v = (
            each(x_BWMC).view(batch, num_windows, area, self._num, self._head_size).transpose(2, 3)
            for each in (self.query, self.key, self.value)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) * self._head_size**-0.5 + self._bias(area)
        if self._layer.shift:
            scores = scores + self._shift_mask(scores)
        shares = torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
        if draws is not None and self._rate:
            # Heads first: those of this rank are then one run of each sample's row.
            shares = shares.transpose(1, 2)
            first = self._first * num_windows * area * area
            shares = drop(shares, draws, (self._number, "attention"), self._rate, first=first).transpose(1, 2)
        return torch.matmul(shares, v).transpose(2, 3).reshape(batch, num_windows, area, -1)

    def _bias(self, area: int) -> Tensor:
        """[N, M x M, M x M], from the table."""
        table = self.relative_position_bias_table
        if self._index is None or self._index.device != table.device:
            self._index = position_index(self._layer.window, table.device)
        return table[self._index].view(area, area, self._num).permute(2, 0, 1)

    def _shift_mask(self, like: Tensor) -> Tensor:
        if self._mask is None or (self._mask.device, self._mask.dtype) != (like.device, like.dtype):
            self._mask = shift_mask(self._layer, like.device, like.dtype)
        return self._mask


class Windows(nn.Module):
    """One layer: attention in windows and a feed-forward, norms before them."""

    def __init__(self, config: ModelConfig, layer: SwinLayer, number: int, axis: TensorAxis | None) -> None:
        super().__init__()
        eps, ffn = config.layer_norm_eps, ffn_of(config, layer.width) // (1 if axis is None else axis.size)
        self.layernorm_before = nn.LayerNorm(layer.width, eps=eps)
        attention = SelfAttention(config, layer, number, axis)
        output = Dense(RowLinear(attention.query.weight.shape[0], layer.width, axis))
        self.attention = nn.ModuleDict({"self": attention, "output": output})
        self.layernorm_after = nn.LayerNorm(layer.width, eps=eps)
        self.intermediate = Dense(Linear(layer.width, ffn))
        self.output = Dense(RowLinear(ffn, layer.width, axis))
        self._layer, self._number, self._axis, self._rate = layer, number, axis, config.dropout

    def forward(self, x_BTC: Tensor, draws: Draws | None) -> Tensor:
        """The stream after this layer."""
        branch = self._attend(enter(self.layernorm_before(x_BTC), self._axis), draws)
        branch = drop(branch, draws, (self._number, "attention output"), self._rate)
        x_BTC = x_BTC + drop_samples(branch, draws, (self._number, "drop path"), self._layer.drop_path)
        inner = F.gelu(self.intermediate(enter(self.layernorm_after(x_BTC), self._axis)))
        branch = drop(self.output(inner), draws, (self._number, "output"), self._rate)
        return branch + x_BTC

    def _attend(self, x_BTC: Tensor, draws: Draws | None) -> Tensor:
        layer = self._layer
        side, missing = layer.side, layer.padded_side - layer.side
        x = x_BTC.view(-1, side, side, layer.width)
        if missing:
            x = F.pad(x, (0, 0, 0, missing, 0, missing))
        if layer.shift:
            x = torch.roll(x, (-layer.shift, -layer.shift), (1, 2))
        y = window_whole(self.attention["self"](window_parts(x, layer.window), draws), layer.padded_side)
        if layer.shift:
            y = torch.roll(y, (layer.shift, layer.shift), (1, 2))
        y = y[:, :side, :side].flatten(1, 2)
        return self.attention["output"](y)


class Merging(nn.Module):
    """Four neighbours become one token of twice the width."""

    def __init__(self, layer: SwinLayer) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * layer.width, eps=STEM_EPS)
        self.reduction = Linear(4 * layer.width, 2 * layer.width, bias=False)
        self._side = layer.side

    def forward(self, x_BTC: Tensor) -> Tensor:
        """[B, T / 4, 2 C]."""
        x = x_BTC.view(-1, self._side, self._side, x_BTC.shape[-1])
        if self._side % 2:
            x = F.pad(x, (0, 0, 0, 1, 0, 1))
        x = torch.cat([x[:, row::2, column::2] for column in range(2) for row in range(2)], dim=-1)
        return self.reduction(self.norm(x.flatten(1, 2)))


class Layer(nn.Module):
    """A block of the model: a layer, and the merging behind it where its stage ends."""

    def __init__(self, config: ModelConfig, layer: SwinLayer, number: int, axis: TensorAxis | None) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({str(layer.index): Windows(config, layer, number, axis)})
        if layer.is_merged:
            self.downsample = Merging(layer)
        self._layer = layer

    def forward(self, x_BTC: Tensor, draws: Draws | None) -> Tensor:
        """The stream behind it."""
        x = self.blocks[str(self._layer.index)](x_BTC, draws)
        return self.downsample(x) if self._layer.is_merged else x


class Head(nn.Module):
    """Norm, mean over the tokens, and a score for each class."""

    def __init__(self, config: ModelConfig, last: SwinLayer) -> None:
        super().__init__()
        self.swin = nn.ModuleDict({"layernorm": nn.LayerNorm(last.width, eps=config.layer_norm_eps)})
        self.classifier = Linear(last.width, config.num_classes)

    def forward(self, x_BTC: Tensor, draws: Draws | None) -> Tensor:
        """[B, classes]."""
        return self.classifier(self.swin["layernorm"](x_BTC).mean(1))
