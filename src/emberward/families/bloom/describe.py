"""BLOOM as a `Model`, and as the configuration that transformers reads (5.23, models/bloom/configuration_bloom.py)."""

import math
from collections.abc import Iterator
from typing import Any

from emberward.families._config import ModelConfig
from emberward.families._family import Misfit, WorkedOut
from emberward.families._sizes import ALIBI_ADDED_WIDTH, folds_alibi, heads_misfit, padded_vocabulary, tp_misfits
from emberward.families.pieces import (
    columns,
    into_columns,
    into_head,
    kept_by_embedding,
    kept_by_head,
    kept_by_layer,
    norm,
    out_of_embedding,
    out_of_rows,
    rows,
)
from emberward.findings import EmberwardError
from emberward.layout import (
    AttentionScores,
    Block,
    Cut,
    DataKind,
    Edge,
    Elementwise,
    Kept,
    Model,
    Normal,
    Over,
    Product,
    Sample,
    TensorSpec,
)

_WRITTEN_GELU = (18, 28)
"""Passes of ``0.5 * x * (1 + tanh(c * (x + 0.044715 * pow(x, 3))))``, an operator at a time, and of what autograd makes
of it: GPT-2's form in transformers (activations.py, gelu_new, NewGELUActivation), minGPT and nanoGPT until 2023."""


class Bloom:
    """The family. See `Family`."""

    name = "bloom"
    keys = frozenset(
        {"num_layers", "hidden", "num_heads", "ffn_hidden", "vocab_size", "seq_len", "layer_norm_eps", "init_std"}
    )
    modules = "emberward.families.bloom.modules"

    def work_out(self, config: ModelConfig, *, tokenizer_size: int, tp: int) -> Iterator[WorkedOut]:
        yield WorkedOut(name="ffn_hidden", value=4 * config.hidden, reason="4 x hidden")
        yield padded_vocabulary(tokenizer_size, tp)
        # BLOOM-176B: init-method-std 0.0048 = sqrt(0.3333 / 14336) (bigscience tr11-176B-ml, chronicles.md).
        yield WorkedOut(name="init_std", value=math.sqrt(0.3333 / config.hidden), reason="sqrt(0.3333 / hidden)")

    def misfits(self, config: ModelConfig, *, tp: int) -> Iterator[Misfit]:
        yield from heads_misfit(config)
        sizes = {"num_heads": config.num_heads, "ffn_hidden": config.ffn_hidden, "vocab_size": config.vocab_size}
        yield from tp_misfits(sizes, tp)

    def layers_of(self, config: ModelConfig) -> tuple[str, int]:
        return "num_layers", config.num_layers

    def splits_positions(self, config: ModelConfig, *, tp: int) -> bool:
        return config.seq_len % tp == 0

    def describe(self, config: ModelConfig) -> Model:
        assert config.vocab_size is not None
        stream = Edge(shape=(config.seq_len, config.hidden), positions=0)
        layers = tuple(_layer(config, number, stream) for number in range(config.num_layers))
        return Model(
            family=self.name,
            sample=Sample(
                kind=DataKind.TOKENS,
                input_shape=(config.seq_len,),
                input_dtype="int64",
                label_shape=(config.seq_len,),
                unit="tokens",
                num_units=config.seq_len,
            ),
            blocks=(_first(config, stream), *layers, _last(config, stream)),
        )

    def hf_config(self, config: ModelConfig, *, eod: int | None) -> dict[str, Any]:
        if config.ffn_hidden != 4 * config.hidden:
            raise EmberwardError(
                "this model has no Hugging Face BLOOM form",
                code="K102",
                where="model.ffn_hidden",
                expected=f"4 x hidden = {4 * config.hidden}, which transformers' BLOOM takes for granted",
                found=str(config.ffn_hidden),
            )
        return {
            "architectures": ["BloomForCausalLM"],
            "model_type": "bloom",
            "vocab_size": config.vocab_size,
            "hidden_size": config.hidden,
            "n_layer": config.num_layers,
            "n_head": config.num_heads,
            "layer_norm_epsilon": config.layer_norm_eps,
            "initializer_range": config.init_std,
            "apply_residual_connection_post_layernorm": False,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "bos_token_id": eod,
            "eos_token_id": eod,
            "pad_token_id": eod,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
        }


FAMILY = Bloom()


def _end_cost(config: ModelConfig) -> float:
    """Parameters of the embedding over those of a layer's matrices: BLOOM-176B counted each end as about a layer."""
    assert config.vocab_size is not None
    return config.vocab_size / (12 * config.hidden)


def _first(config: ModelConfig, stream: Edge) -> Block:
    vocab, positions, h = config.vocab_size, config.seq_len, config.hidden
    assert vocab is not None and config.init_std is not None
    table = TensorSpec(
        name="embed.weight", shape=(vocab, h), over_tp=Cut(dim=0), init=Normal(std=config.init_std), decays=True
    )
    return Block(
        name="embed",
        prefix="",
        tensors=(table, *norm("embed_norm", h)),
        cost=_end_cost(config),
        operations=(Elementwise(name="look-up", numel=positions * h, passes=4, eager_passes=4, over=Over.NOTHING),),
        kept=(
            *kept_by_embedding(positions=positions),
            Kept(numel=positions * h, over=Over.POSITIONS),
            Kept(numel=2 * positions, over=Over.POSITIONS, item_bytes=4),
        ),
        tp_changes=(out_of_embedding(stream),),
        output=stream,
    )


def _layer(config: ModelConfig, number: int, stream: Edge) -> Block:
    assert config.ffn_hidden is not None and config.init_std is not None
    at, h, f, s, heads = f"blocks.{number}.", config.hidden, config.ffn_hidden, config.seq_len, config.num_heads
    # Projections back into the residual stream start smaller by sqrt(2 x layers), as in Megatron-LM.
    std, back = config.init_std, config.init_std / math.sqrt(2 * config.num_layers)
    is_folded = folds_alibi(s)
    if is_folded:
        # q, k, v and the result with their further columns, the result without them, and the numbers behind those.
        added = ALIBI_ADDED_WIDTH * heads
        alibi: tuple[Kept, ...] = (
            Kept(numel=4 * s * added + s * h, over=Over.TP),
            Kept(numel=added, over=Over.TP, is_constant=True),
            Kept(numel=ALIBI_ADDED_WIDTH * s, over=Over.NOTHING, is_constant=True),
        )
    else:
        alibi = (Kept(numel=heads * s * s, over=Over.TP, is_constant=True),)
    return Block(
        name=f"layer {number}",
        prefix=at,
        tensors=(
            *norm(f"{at}attention_norm", h),
            *columns(f"{at}attention.qkv", 3 * h, h, std=std, units=heads),
            *rows(f"{at}attention.out", h, h, std=back, units=heads),
            *norm(f"{at}mlp_norm", h),
            *columns(f"{at}mlp.up", f, h, std=std),
            *rows(f"{at}mlp.down", h, f, std=back),
        ),
        cost=1.0,
        operations=(
            Product(rows=s, out=3 * h, into=h, split="out", has_bias=True),
            AttentionScores(
                heads=heads,
                head_size=h // heads,
                positions=s,
                is_causal=True,
                has_mask=not is_folded,
                added_width=ALIBI_ADDED_WIDTH if is_folded else 0,
            ),
            Product(rows=s, out=h, into=h, split="into", has_bias=True),
            Product(rows=s, out=f, into=h, split="out", has_bias=True),
            Product(rows=s, out=h, into=f, split="into", has_bias=True),
            Elementwise(name="norms", numel=s * h, passes=4, eager_passes=4, over=Over.POSITIONS, is_norm=True),
            Elementwise(name="additions", numel=s * h, passes=6, eager_passes=6, over=Over.POSITIONS, has_dropout=True),
            Elementwise(
                name="activation",
                numel=s * f,
                passes=2,
                eager_passes=2,
                written_passes=_WRITTEN_GELU[0],
                written_backward=_WRITTEN_GELU[1],
                over=Over.TP,
            ),
            Elementwise(name="query, key, value", numel=s * 3 * h, passes=2, eager_passes=2, over=Over.TP),
        ),
        kept=(
            *kept_by_layer(positions=s, hidden=h, heads=heads, kv_width=h, ffn=f, ffn_kept=2, norm_numbers=2),
            *alibi,
        ),
        tp_changes=(into_columns(stream, 2), out_of_rows(stream, 2)),
        output=stream,
    )


def _last(config: ModelConfig, stream: Edge) -> Block:
    vocab, s, h = config.vocab_size, config.seq_len, config.hidden
    assert vocab is not None and config.init_std is not None
    head = TensorSpec(
        name="head.weight",
        shape=(vocab, h),
        over_tp=Cut(dim=0),
        init=Normal(std=config.init_std),
        decays=True,
        tied_to="embed.weight",
    )
    return Block(
        name="head",
        prefix="",
        tensors=(*norm("final_norm", h), head),
        cost=_end_cost(config),
        operations=(Product(rows=s, out=vocab, into=h, split="out", has_bias=False),),
        kept=kept_by_head(positions=s, hidden=h, vocab_size=vocab, norm_numbers=2),
        tp_changes=(into_head(stream),),
        output=Edge(shape=(s, vocab), positions=None),
        loss_sums=(2, 3 * s),
    )
