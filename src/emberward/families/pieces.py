"""Declarations that many families share: norms, linear layers, changes over tp, what a layer keeps."""

from emberward.layout import (
    Constant,
    Cut,
    Direction,
    Edge,
    GradientSum,
    Init,
    Kept,
    Normal,
    Over,
    TensorSpec,
    TpChange,
    Whole,
)

STREAM = Whole(gradient=GradientSum.BY_POSITION)
"""How tp holds what works on the residual stream: norms, and the biases of layers that are split by rows."""
ONES, ZEROS = Constant(value=1.0), Constant(value=0.0)


def norm(name: str, width: int, *, has_bias: bool = True) -> tuple[TensorSpec, ...]:
    """A norm over the residual stream."""
    weight = TensorSpec(name=f"{name}.weight", shape=(width,), over_tp=STREAM, init=ONES, decays=False)
    bias = TensorSpec(name=f"{name}.bias", shape=(width,), over_tp=STREAM, init=ZEROS, decays=False)
    return (weight, bias) if has_bias else (weight,)


def columns(
    name: str, out: int, into: int, *, std: float, units: int | None = None, has_bias: bool = True
) -> tuple[TensorSpec, ...]:
    """A linear layer whose outputs tp divides, between `units` heads if that is not None."""
    return linear(name, out, into, over_tp=Cut(dim=0, units=units), init=Normal(std=std), has_bias=has_bias)


def rows(
    name: str, out: int, into: int, *, std: float, units: int | None = None, has_bias: bool = True
) -> tuple[TensorSpec, ...]:
    """A linear layer whose inputs tp divides; each rank holds its bias whole."""
    return linear(name, out, into, over_tp=Cut(dim=1, units=units), init=Normal(std=std), has_bias=has_bias)


def linear(
    name: str, out: int, into: int, *, over_tp: Cut | Whole, init: Init, has_bias: bool
) -> tuple[TensorSpec, ...]:
    """A linear layer as any placement of its weight makes it; a bias is cut as the outputs are, or else whole."""
    is_cut_by_out = isinstance(over_tp, Cut) and over_tp.dim == 0
    weight = TensorSpec(name=f"{name}.weight", shape=(out, into), over_tp=over_tp, init=init, decays=True)
    bias = TensorSpec(
        name=f"{name}.bias",
        shape=(out,),
        over_tp=over_tp if is_cut_by_out or isinstance(over_tp, Whole) else STREAM,
        init=ZEROS,
        decays=False,
    )
    return (weight, bias) if has_bias else (weight,)


def into_columns(edge: Edge, times: int) -> TpChange:
    """The stream of `edge` becomes the input of `times` groups of layers that are split by columns."""
    return TpChange(
        direction=Direction.ENTER,
        times=times,
        shape=edge.shape,
        positions=edge.positions,
        name="stream into columns",
        gradient_name="gradient of columns",
        source="norm",
        target="columns",
    )


def out_of_rows(edge: Edge, times: int) -> TpChange:
    """The sums of `times` layers that are split by rows join the stream of `edge`."""
    return TpChange(
        direction=Direction.LEAVE,
        times=times,
        shape=edge.shape,
        positions=edge.positions,
        name="sums of rows",
        gradient_name="gradient of sums",
        source="rows",
        target="residual",
    )


def out_of_embedding(edge: Edge) -> TpChange:
    """The rows that tp ranks found in their parts of the vocabulary join the stream of `edge`."""
    return TpChange(
        direction=Direction.LEAVE,
        times=1,
        shape=edge.shape,
        positions=edge.positions,
        name="embedding",
        gradient_name="embedding's gradient",
        source="embed",
        target="residual",
    )


def into_head(edge: Edge) -> TpChange:
    """The stream of `edge` becomes the input of a head whose vocabulary tp divides."""
    return TpChange(
        direction=Direction.ENTER,
        times=1,
        shape=edge.shape,
        positions=edge.positions,
        name="stream into the head",
        gradient_name="head's gradient",
        source="final_norm",
        target="head",
    )


def kept_by_layer(
    *,
    positions: int,
    hidden: int,
    heads: int,
    kv_width: int,
    ffn: int,
    ffn_kept: int,
    norm_numbers: int,
    query_width: int | None = None,
) -> tuple[Kept, ...]:
    """What a transformer layer leaves, as `plan/_activations.py` [Note: activations] counts it.

    `ffn_kept` tensors of the feed-forward width enter and leave its activation; a norm keeps `norm_numbers` float32 a
    position. `query_width`: of all queries; None: `hidden`.
    """
    split = 2 * (query_width or hidden) + 2 * kv_width + ffn_kept * ffn
    return (
        Kept(numel=positions * 2 * hidden, over=Over.POSITIONS),
        Kept(numel=positions * 2 * hidden, over=Over.NOTHING),
        Kept(numel=positions * split, over=Over.TP),
        Kept(numel=positions * 2 * norm_numbers, over=Over.POSITIONS, item_bytes=4),
        Kept(numel=positions * heads, over=Over.TP, item_bytes=4),
    )


def kept_by_embedding(*, positions: int) -> tuple[Kept, ...]:
    """What a look-up leaves: ids, and over tp a mask of those that lie with other ranks."""
    return (
        Kept(numel=positions, over=Over.NOTHING, item_bytes=8),
        Kept(numel=positions, over=Over.NOTHING, item_bytes=1, only_split=True),
    )


def kept_by_head(*, positions: int, hidden: int, vocab_size: int, norm_numbers: int) -> tuple[Kept, ...]:
    """What a norm, a head over the vocabulary and the loss leave: the logits and the labels."""
    return (
        Kept(numel=positions * hidden, over=Over.POSITIONS),
        Kept(numel=positions * norm_numbers, over=Over.POSITIONS, item_bytes=4),
        Kept(numel=positions * hidden, over=Over.NOTHING),
        Kept(numel=positions * vocab_size, over=Over.TP),
        Kept(numel=positions, over=Over.NOTHING, item_bytes=8),
    )
