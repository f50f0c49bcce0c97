"""Swin as a `Model`, and as the configuration that transformers reads (5.23, models/swin/configuration_swin.py).

Tensors have the names of transformers' files. A patch merging belongs to the last layer of its stage: the edge behind
it holds half the elements of the one before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from emberward.families._config import ModelConfig
from emberward.families._family import Misfit, WorkedOut
from emberward.families.pieces import ZEROS, columns, into_columns, linear, norm, out_of_rows, rows
from emberward.layout import (
    AttentionScores,
    Block,
    Cut,
    DataKind,
    Edge,
    Elementwise,
    GradientSum,
    Kept,
    Model,
    Normal,
    Over,
    Product,
    Sample,
    TensorSpec,
    Whole,
)

ENCODER = "swin.encoder.layers."
ALIKE = Whole(gradient=GradientSum.NEVER)
"""How tp holds stem, merging and head: each rank computes them whole on the whole stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwinLayer:
    """One layer: its stage and its number in it, sizes, and whether a patch merging follows.

    `side`: rows and columns of its tokens. `shift` is 0 where windows are not moved.
    """

    stage: int
    index: int
    side: int
    width: int
    heads: int
    window: int
    shift: int
    drop_path: float
    is_merged: bool

    @property
    def name(self) -> str:
        """What its parameters' names begin with."""
        return f"{ENCODER}{self.stage}.blocks.{self.index}"

    @property
    def padded_side(self) -> int:
        """`side` raised to a multiple of the window."""
        return -(-self.side // self.window) * self.window

    @property
    def num_windows(self) -> int:
        """Windows of a sample."""
        return (self.padded_side // self.window) ** 2

    @property
    def side_behind(self) -> int:
        """Rows and columns of the tokens that leave it; an odd side is padded before it is halved."""
        return -(-self.side // 2) if self.is_merged else self.side

    @property
    def width_behind(self) -> int:
        """Width of the tokens that leave it."""
        return 2 * self.width if self.is_merged else self.width


def stem_side(config: ModelConfig) -> int:
    """Rows and columns of patches; an image that the patch does not divide is padded."""
    return -(-config.image_size // config.patch_size)


def ffn_of(config: ModelConfig, width: int) -> int:
    """Width inside the feed-forward layer of a stage of `width`."""
    return int(config.mlp_ratio * width)


def swin_layers(config: ModelConfig) -> tuple[SwinLayer, ...]:
    """The layers of all stages in order."""
    found: list[SwinLayer] = []
    side, total = stem_side(config), sum(config.depths)
    for stage, (depth, heads) in enumerate(zip(config.depths, config.stage_heads, strict=True)):
        is_moved = side > config.window
        for index in range(depth):
            layer = SwinLayer(
                stage=stage,
                index=index,
                side=side,
                width=config.hidden * 2**stage,
                heads=heads,
                window=min(config.window, side),
                shift=config.window // 2 if index % 2 and is_moved else 0,
                drop_path=config.drop_path * len(found) / max(total - 1, 1),
                is_merged=index == depth - 1 and stage < len(config.depths) - 1,
            )
            found.append(layer)
        side = -(-side // 2)
    return tuple(found)


class Swin:
    """The family. See `Family`."""

    name = "swin"
    keys = frozenset(
        {
            "hidden", "depths", "stage_heads", "window", "mlp_ratio", "image_size", "patch_size", "num_channels",
            "num_classes", "drop_path", "dropout", "attention_dropout", "layer_norm_eps", "init_std",
        }
    )  # fmt: skip
    modules = "emberward.families.swin.modules"

    def work_out(self, config: ModelConfig, *, tokenizer_size: int, tp: int) -> Iterator[WorkedOut]:
        yield WorkedOut(name="init_std", value=0.02, reason="Liu et al. 2021")

    def misfits(self, config: ModelConfig, *, tp: int) -> Iterator[Misfit]:
        if len(config.depths) != len(config.stage_heads) or not config.depths:
            yield Misfit(
                what="each stage needs its number of heads",
                expected=f"model.stage_heads with {len(config.depths)} numbers, as model.depths",
                names=("model.stage_heads", "model.depths"),
            )
            return
        yield from _sizes_misfit(config)
        for stage, heads in enumerate(config.stage_heads):
            width = config.hidden * 2**stage
            if width % heads:
                yield Misfit(
                    what=f"the heads of stage {stage} do not divide its width",
                    expected=f"a divisor of {width} = model.hidden x 2^{stage} in place of {heads}",
                    names=("model.stage_heads", "model.hidden"),
                )
            ffn = ffn_of(config, width)
            # Heads are cut unevenly, but a rank without any would have empty parameters, and the width is cut evenly.
            if -(-heads // tp) * (tp - 1) >= heads or ffn % tp:
                yield Misfit(
                    what="tensor parallel cannot split the model",
                    expected=f"layout.tp that leaves each rank one of the {heads} heads of stage {stage} and divides "
                    f"its feed-forward width {ffn}",
                    names=("model.stage_heads", "layout.tp"),
                )

    def layers_of(self, config: ModelConfig) -> tuple[str, int]:
        return "depths", sum(config.depths)

    def splits_positions(self, config: ModelConfig, *, tp: int) -> bool:
        # Windows and merging mix positions in two directions: the stream stays whole on every rank.
        return False

    def describe(self, config: ModelConfig) -> Model:
        layers = swin_layers(config)
        return Model(
            family=self.name,
            sample=Sample(
                kind=DataKind.IMAGES,
                input_shape=(config.num_channels, config.image_size, config.image_size),
                input_dtype="float32",
                label_shape=(config.num_classes,),
                unit="images",
                num_units=1,
            ),
            blocks=(_stem(config), *(_block(config, layer) for layer in layers), _head(config, layers[-1])),
        )

    def hf_config(self, config: ModelConfig, *, eod: int | None) -> dict[str, Any]:
        return {
            "architectures": ["SwinForImageClassification"],
            "model_type": "swin",
            "image_size": config.image_size,
            "patch_size": config.patch_size,
            "num_channels": config.num_channels,
            "embed_dim": config.hidden,
            "depths": list(config.depths),
            "num_heads": list(config.stage_heads),
            "window_size": config.window,
            "mlp_ratio": config.mlp_ratio,
            "qkv_bias": True,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "drop_path_rate": config.drop_path,
            "hidden_act": "gelu",
            "use_absolute_embeddings": False,
            "initializer_range": config.init_std,
            "layer_norm_eps": config.layer_norm_eps,
            "num_labels": config.num_classes,
            "id2label": {str(number): f"LABEL_{number}" for number in range(config.num_classes)},
            "label2id": {f"LABEL_{number}": number for number in range(config.num_classes)},
            "torch_dtype": "float32",
        }


FAMILY = Swin()


def _sizes_misfit(config: ModelConfig) -> Iterator[Misfit]:
    """Whether every stage has a whole window: a table of a larger one has no use for all its rows."""
    side, sides = stem_side(config), []
    for _ in config.depths:
        sides.append(side)
        side = -(-side // 2)
    if min(sides) < config.window:
        shown = " / ".join(map(str, sides))
        yield Misfit(
            what="the windows do not fit the last stages",
            expected=f"model.window at most {min(sides)}: the stages have {shown} rows of tokens",
            names=("model.window", "model.image_size", "model.patch_size"),
            next=f"model.window={min(sides)}",
        )


def _alike(name: str, out: int, into: int, std: float, *, has_bias: bool = True) -> tuple[TensorSpec, ...]:
    return linear(name, out, into, over_tp=ALIKE, init=Normal(std=std), has_bias=has_bias)


def _stem(config: ModelConfig) -> Block:
    assert config.init_std is not None
    side, width, patch = stem_side(config), config.hidden, config.patch_size
    tokens, pixels = side * side, config.num_channels * patch * patch
    at = "swin.embeddings."
    shape = (width, config.num_channels, patch, patch)
    return Block(
        name="stem",
        prefix=at,
        tensors=(
            TensorSpec(
                name=f"{at}patch_embeddings.projection.weight",
                shape=shape,
                over_tp=ALIKE,
                init=Normal(std=config.init_std),
                decays=True,
            ),
            TensorSpec(
                name=f"{at}patch_embeddings.projection.bias", shape=(width,), over_tp=ALIKE, init=ZEROS, decays=False
            ),
            *norm(f"{at}norm", width),
        ),
        cost=_cost(tokens * width * pixels),
        operations=(
            Product(rows=tokens, out=width, into=pixels, split=None, has_bias=True),
            Elementwise(name="norm", numel=tokens * width, passes=2, eager_passes=2, over=Over.NOTHING, is_norm=True),
        ),
        kept=(
            Kept(numel=tokens * pixels, over=Over.NOTHING, item_bytes=4),
            Kept(numel=tokens * width, over=Over.NOTHING),
            Kept(numel=2 * tokens, over=Over.NOTHING, item_bytes=4),
        ),
        tp_changes=(),
        output=Edge(shape=(tokens, width), positions=None),
    )


def _block(config: ModelConfig, layer: SwinLayer) -> Block:
    assert config.init_std is not None
    std, at, width, heads, ffn = config.init_std, layer.name, layer.width, layer.heads, ffn_of(config, layer.width)
    stream = Edge(shape=(layer.side**2, width), positions=None)
    table = TensorSpec(
        name=f"{at}.attention.self.relative_position_bias_table",
        shape=((2 * config.window - 1) ** 2, heads),
        over_tp=Cut(dim=1, units=heads),
        init=ZEROS,
        # As Microsoft's code; a rule by number of dims would let it decay.
        decays=False,
    )
    merge = f"{ENCODER}{layer.stage}.downsample"
    merging = (
        *norm(f"{merge}.norm", 4 * width),
        *_alike(f"{merge}.reduction", 2 * width, 4 * width, std, has_bias=False),
    )
    return Block(
        name=f"layer {layer.stage}.{layer.index}",
        prefix=f"{ENCODER}{layer.stage}.",
        tensors=(
            *norm(f"{at}.layernorm_before", width),
            table,
            *(
                spec
                for each in ("query", "key", "value")
                for spec in columns(f"{at}.attention.self.{each}", width, width, std=std, units=heads)
            ),
            *rows(f"{at}.attention.output.dense", width, width, std=std, units=heads),
            *norm(f"{at}.layernorm_after", width),
            *columns(f"{at}.intermediate.dense", ffn, width, std=std),
            *rows(f"{at}.output.dense", width, ffn, std=std),
            *(merging if layer.is_merged else ()),
        ),
        cost=_cost(_multiplications(layer, ffn)),
        operations=_operations(layer, ffn),
        kept=_kept(layer, ffn),
        tp_changes=(into_columns(stream, 2), out_of_rows(stream, 2)),
        output=Edge(shape=(layer.side_behind**2, layer.width_behind), positions=None),
    )


def _cost(multiplications: int) -> float:
    """Cost in millions of multiply-adds of a sample."""
    return multiplications / 1e6


def _multiplications(layer: SwinLayer, ffn: int) -> int:
    tokens, padded, width = layer.side**2, layer.padded_side**2, layer.width
    attention = padded * (3 * width * width + 2 * layer.window**2 * width) + tokens * width * width
    merging = layer.side_behind**2 * 8 * width * width if layer.is_merged else 0
    return attention + 2 * tokens * width * ffn + merging


def _operations(layer: SwinLayer, ffn: int) -> tuple[Any, ...]:
    tokens, padded, width = layer.side**2, layer.padded_side**2, layer.width
    merged = layer.side_behind**2
    merging = (
        Elementwise(name="merging", numel=merged * 4 * width, passes=4, eager_passes=4, over=Over.NOTHING),
        Product(rows=merged, out=2 * width, into=4 * width, split=None, has_bias=False),
    )
    return (
        *(Product(rows=padded, out=width, into=width, split="out", has_bias=True) for _ in range(3)),
        AttentionScores(
            heads=layer.heads,
            head_size=width // layer.heads,
            positions=layer.window**2,
            is_causal=False,
            has_mask=True,
            windows=layer.num_windows,
        ),
        Product(rows=tokens, out=width, into=width, split="into", has_bias=True),
        Product(rows=tokens, out=ffn, into=width, split="out", has_bias=True),
        Product(rows=tokens, out=width, into=ffn, split="into", has_bias=True),
        Elementwise(name="norms", numel=tokens * width, passes=4, eager_passes=4, over=Over.NOTHING, is_norm=True),
        Elementwise(name="windows", numel=padded * width, passes=4, eager_passes=8, over=Over.NOTHING),
        Elementwise(
            name="additions", numel=tokens * width, passes=6, eager_passes=6, over=Over.NOTHING, has_dropout=True
        ),
        Elementwise(name="activation", numel=tokens * ffn, passes=2, eager_passes=2, over=Over.TP),
        *(merging if layer.is_merged else ()),
    )


def _kept(layer: SwinLayer, ffn: int) -> tuple[Kept, ...]:
    """What a forward leaves for the backward.

    Inputs of both norms and of both groups of linear layers; queries, keys, values and what attention gives; two forms
    of the feed-forward's inside; the attention's weights.
    """
    tokens, padded, width = layer.side**2, layer.padded_side**2, layer.width
    scores = layer.num_windows * layer.heads * layer.window**4
    merged = layer.side_behind**2
    merging = (
        Kept(numel=8 * merged * width, over=Over.NOTHING),
        Kept(numel=2 * merged, over=Over.NOTHING, item_bytes=4),
    )
    return (
        Kept(numel=4 * tokens * width, over=Over.NOTHING),
        Kept(numel=3 * padded * width + tokens * width, over=Over.TP),
        Kept(numel=2 * tokens * ffn, over=Over.TP),
        Kept(numel=scores, over=Over.TP),
        Kept(numel=4 * tokens, over=Over.NOTHING, item_bytes=4),
        Kept(numel=layer.heads * layer.window**4, over=Over.TP, is_constant=True),
        *(merging if layer.is_merged else ()),
    )


def _head(config: ModelConfig, last: SwinLayer) -> Block:
    assert config.init_std is not None
    tokens, width, classes = last.side**2, last.width, config.num_classes
    return Block(
        name="head",
        prefix="",
        tensors=(*norm("swin.layernorm", width), *_alike("classifier", classes, width, config.init_std)),
        cost=_cost(tokens * width + width * classes),
        operations=(
            Elementwise(name="norm and mean", numel=tokens * width, passes=3, eager_passes=3, over=Over.NOTHING),
            Product(rows=1, out=classes, into=width, split=None, has_bias=True),
        ),
        kept=(
            Kept(numel=tokens * width + width, over=Over.NOTHING),
            Kept(numel=2 * tokens + 2 * classes, over=Over.NOTHING, item_bytes=4),
        ),
        tp_changes=(),
        output=Edge(shape=(classes,), positions=None),
    )
