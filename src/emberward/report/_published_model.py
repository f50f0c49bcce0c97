"""The models of published runs: decoders, as the families bloom and llama declare them and in the forms between."""

from collections.abc import Mapping
from dataclasses import replace

from emberward.families import LlamaConfig, ModelConfig, model_of
from emberward.layout import AttentionScores, Block, Cut, Elementwise, Model, Operation, Over, Product, TensorSpec


def decoder_model(
    *,
    num_layers: int,
    hidden: int,
    num_heads: int,
    ffn_hidden: int,
    vocab_size: int,
    seq_len: int,
    num_kv_heads: int | None = None,
    head_size: int | None = None,
    is_gated: bool = False,
    has_bias: bool = True,
    has_embed_norm: bool = True,
    is_tied: bool = True,
    is_causal: bool = True,
    has_head_norms: bool = False,
) -> Model:
    """A decoder's declaration: llama's when `is_gated`, else bloom's.

    One of bloom's form may lack biases, the embedding's norm or the tie of its head, and may have grouped queries. One
    without that norm is of GPT's form, whose attention adds no table that a kernel must read; one that is not causal
    (BERT) attends to the whole square. `has_head_norms`: queries and keys of a gated one are normed by head. Raises
    ValueError for a gated one with biases.
    """
    if is_gated and has_bias:
        raise ValueError("no family declares a gated decoder with biases")
    if head_size is not None and not is_gated:
        raise ValueError("no family declares an ungated decoder whose heads have a size of their own")
    model = model_of(
        ModelConfig(
            family="llama" if is_gated else "bloom",
            num_layers=num_layers,
            hidden=hidden,
            num_heads=num_heads,
            ffn_hidden=ffn_hidden,
            vocab_size=vocab_size,
            seq_len=seq_len,
            init_std=0.02,
            llama=LlamaConfig(num_kv_heads=num_kv_heads, head_size=head_size, is_tied=is_tied),
        )
    )
    if is_gated:
        model = model if is_causal else _attending_to_all(model)
        return _with_head_norms(model, num_heads, num_kv_heads or num_heads) if has_head_norms else model
    kv_width = hidden // num_heads * (num_kv_heads or num_heads)
    blocks = [
        _form(
            block,
            has_bias=has_bias,
            has_mask=has_embed_norm,
            is_causal=is_causal,
            qkv={3 * hidden: hidden + 2 * kv_width},
        )
        for block in model.blocks
    ]
    if not is_tied:
        blocks[-1] = replace(blocks[-1], tensors=tuple(replace(each, tied_to=None) for each in blocks[-1].tensors))
    return replace(model, blocks=tuple(blocks))


def _attending_to_all(model: Model) -> Model:
    """The model without a causal mask."""

    def opened(each: Operation) -> Operation:
        return replace(each, is_causal=False) if isinstance(each, AttentionScores) else each

    return replace(
        model, blocks=tuple(replace(block, operations=tuple(map(opened, block.operations))) for block in model.blocks)
    )


def _with_head_norms(model: Model, num_heads: int, num_kv_heads: int) -> Model:
    """The model with norms of queries and keys (Qwen3): half the passes of a layer's two norms, over their heads."""

    def normed(block: Block) -> Block:
        size = next(each.head_size for each in block.operations if isinstance(each, AttentionScores))
        stream = next(each for each in block.operations if isinstance(each, Elementwise) and each.is_norm)
        norms = replace(
            stream,
            name="norms of queries and keys",
            numel=model.sample.num_units * (num_heads + num_kv_heads) * size,
            passes=stream.passes / 2,
            eager_passes=stream.eager_passes / 2,
            over=Over.TP,
        )
        return replace(block, operations=(*block.operations, norms))

    first, *layers, last = model.blocks
    return replace(model, blocks=(first, *map(normed, layers), last))


def _form(block: Block, *, has_bias: bool, has_mask: bool, is_causal: bool, qkv: Mapping[int, int]) -> Block:
    """The block without its biases, or without ALiBi and the embedding's norm; `qkv` replaces widths by others."""

    def width_of(width: int) -> int:
        return qkv.get(width, width)

    def changed(each: Operation) -> Operation:
        match each:
            case Product():
                return replace(each, has_bias=each.has_bias and has_bias, out=width_of(each.out))
            case AttentionScores():
                return replace(each, has_mask=has_mask, is_causal=is_causal)
            case Elementwise(name="query, key, value"):
                old, new = next(iter(qkv.items()))
                return replace(each, numel=each.numel // old * new)
            case _:
                return each

    def is_left(tensor: TensorSpec) -> bool:
        is_bias, is_norm = tensor.name.endswith(".bias"), tensor.name.startswith("embed_norm")
        return (has_bias or not is_bias) and (has_mask or not is_norm)

    def widened(tensor: TensorSpec) -> TensorSpec:
        if ".qkv." not in tensor.name:
            return tensor
        return replace(tensor, shape=(width_of(tensor.shape[0]), *tensor.shape[1:]), over_tp=Cut(dim=0))

    return replace(
        block,
        tensors=tuple(map(widened, filter(is_left, block.tensors))),
        operations=tuple(map(changed, block.operations)),
    )
