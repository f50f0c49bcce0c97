"""Llama as a `Model`, and as the configuration of transformers (5.23, models/llama/configuration_llama.py)."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from emberward.families._config import LlamaConfig, ModelConfig
from emberward.families._family import Misfit, WorkedOut
from emberward.families._sizes import heads_misfit, near_divisors, near_multiples, padded_vocabulary, tp_misfits
from emberward.families.pieces import (
    columns,
    into_columns,
    into_head,
    kept_by_embedding,
    kept_by_head,
    kept_by_layer,
    linear,
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

_FFN_MULTIPLE = 64
_INIT_STD = 0.02


class Llama:
    """The family. See `Family`."""

    name = "llama"
    keys = frozenset(
        {
            "num_layers", "hidden", "num_heads", "ffn_hidden", "vocab_size", "seq_len", "layer_norm_eps", "init_std",
            "llama",
        }
    )  # fmt: skip
    modules = "emberward.families.llama.modules"

    def work_out(self, config: ModelConfig, *, tokenizer_size: int, tp: int) -> Iterator[WorkedOut]:
        # As many weights as two matrices of 4 x hidden have (Touvron et al. 2023), rounded up.
        unit = math.lcm(_FFN_MULTIPLE, tp)
        width = -(-8 * config.hidden // (3 * unit)) * unit
        yield WorkedOut(name="ffn_hidden", value=width, reason=f"8/3 x hidden, rounded up to a multiple of {unit}")
        yield padded_vocabulary(tokenizer_size, tp)
        yield WorkedOut(name="init_std", value=_INIT_STD, reason="Llama's, as transformers has it")

    def misfits(self, config: ModelConfig, *, tp: int) -> Iterator[Misfit]:
        heads, kv = config.num_heads, _kv_heads(config)
        yield from _head_misfits(config)
        if heads % kv:
            yield Misfit(
                what="the key heads do not divide the query heads",
                expected=f"model.llama.num_kv_heads a divisor of model.num_heads, as {near_divisors(heads, kv)}",
                names=("model.llama.num_kv_heads", "model.num_heads"),
            )
        sizes = {"num_heads": heads, "ffn_hidden": config.ffn_hidden, "vocab_size": config.vocab_size}
        yield from tp_misfits(sizes, tp)
        if kv % tp and tp % kv:
            yield Misfit(
                what="tensor parallel cannot split the key heads",
                expected=f"layout.tp a divisor or a multiple of model.llama.num_kv_heads, as {near_divisors(kv, tp)}",
                names=("model.llama.num_kv_heads", "layout.tp"),
            )

    def layers_of(self, config: ModelConfig) -> tuple[str, int]:
        return "num_layers", config.num_layers

    def splits_positions(self, config: ModelConfig, *, tp: int) -> bool:
        return config.seq_len % tp == 0

    def describe(self, config: ModelConfig) -> Model:
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
        return hf_config(config, eod=eod)

    def read_hf_config(self, document: Mapping[str, Any]) -> ModelConfig:
        return read_hf_config(document)


FAMILY = Llama()


def head_size(config: ModelConfig) -> int:
    """Width of a head."""
    return config.hidden // config.num_heads if config.llama.head_size is None else config.llama.head_size


def _head_misfits(config: ModelConfig) -> Iterator[Misfit]:
    what = "rotary positions turn pairs of a head's numbers"
    if config.llama.head_size is None:
        yield from heads_misfit(config)
        if head_size(config) % 2:
            near = near_multiples(config.hidden, 2 * config.num_heads)
            expected = f"model.hidden a multiple of 2 x model.num_heads, as {near}"
            yield Misfit(what=what, expected=expected, names=("model.hidden", "model.num_heads"))
    elif head_size(config) % 2:
        yield Misfit(what=what, expected="an even model.llama.head_size", names=("model.llama.head_size",))


def _kv_heads(config: ModelConfig) -> int:
    return config.num_heads if config.llama.num_kv_heads is None else config.llama.num_kv_heads


def _matrix_cost(config: ModelConfig) -> int:
    """Weights of a layer's matrices."""
    assert config.ffn_hidden is not None
    h, d = config.hidden, head_size(config)
    return 2 * h * d * (config.num_heads + _kv_heads(config)) + 3 * h * config.ffn_hidden


def _table(config: ModelConfig, name: str, *, tied_to: str | None = None) -> TensorSpec:
    assert config.vocab_size is not None and config.init_std is not None
    shape = (config.vocab_size, config.hidden)
    init = Normal(std=config.init_std)
    return TensorSpec(name=name, shape=shape, over_tp=Cut(dim=0), init=init, decays=True, tied_to=tied_to)


def _first(config: ModelConfig, stream: Edge) -> Block:
    s, h = config.seq_len, config.hidden
    return Block(
        name="embed",
        prefix="",
        tensors=(_table(config, "embed.weight"),),
        cost=config.hidden * (config.vocab_size or 0) / _matrix_cost(config),
        operations=(Elementwise(name="look-up", numel=s * h, passes=4, eager_passes=4, over=Over.NOTHING),),
        kept=kept_by_embedding(positions=s),
        tp_changes=(out_of_embedding(stream),),
        output=stream,
    )


def _layer(config: ModelConfig, number: int, stream: Edge) -> Block:
    assert config.ffn_hidden is not None and config.init_std is not None
    at, h, f, s, heads = f"blocks.{number}.", config.hidden, config.ffn_hidden, config.seq_len, config.num_heads
    kv, d, std = _kv_heads(config), head_size(config), config.init_std
    queries = heads * d
    grouped = Cut(dim=0, units=kv, is_shared=True)
    return Block(
        name=f"layer {number}",
        prefix=at,
        tensors=(
            *norm(f"{at}attention_norm", h, has_bias=False),
            *columns(f"{at}attention.q", queries, h, std=std, units=heads, has_bias=False),
            *linear(f"{at}attention.k", kv * d, h, over_tp=grouped, init=Normal(std=std), has_bias=False),
            *linear(f"{at}attention.v", kv * d, h, over_tp=grouped, init=Normal(std=std), has_bias=False),
            *rows(f"{at}attention.out", h, queries, std=std, units=heads, has_bias=False),
            *norm(f"{at}mlp_norm", h, has_bias=False),
            *columns(f"{at}mlp.gate", f, h, std=std, has_bias=False),
            *columns(f"{at}mlp.up", f, h, std=std, has_bias=False),
            *rows(f"{at}mlp.down", h, f, std=std, has_bias=False),
        ),
        cost=1.0,
        operations=(
            Product(rows=s, out=queries + 2 * kv * d, into=h, split="out", has_bias=False),
            AttentionScores(heads=heads, head_size=d, positions=s, is_causal=True, has_mask=False),
            Product(rows=s, out=h, into=queries, split="into", has_bias=False),
            Product(rows=s, out=f, into=h, split="out", has_bias=False),
            Product(rows=s, out=f, into=h, split="out", has_bias=False),
            Product(rows=s, out=h, into=f, split="into", has_bias=False),
            # Eager, each norm: to float32 (6 bytes a number), square, mean, times the root (8 + 4 + 8), back, times the
            # weight (6 + 4); backward weight (4 + 8), to float32 (6), product and sum of the root's gradient (8 + 16),
            # mean (4), square (8 + 8 + 12), their sum (12), back (6).
            Elementwise(
                name="norms",
                numel=s * h,
                passes=4,
                eager_passes=36,
                over=Over.POSITIONS,
                eager_backward=92 / 36,
                is_norm=True,
            ),
            # Eager backward: the stream's gradients are added (6), those of queries, keys and values (6), of gate and
            # up (3).
            Elementwise(
                name="additions",
                numel=s * h,
                passes=6,
                eager_passes=6,
                over=Over.POSITIONS,
                has_dropout=True,
                eager_backward=15 / 6,
            ),
            # Backward: gate, up and a gradient give two (Megatron-LM, fused_bias_swiglu.py, swiglu_back); as operators
            # two products and that of SiLU. A rotation goes back as it came.
            Elementwise(
                name="activation",
                numel=s * f,
                passes=3,
                eager_passes=5,
                over=Over.TP,
                backward=5 / 3,
                eager_backward=9 / 5,
            ),
            Elementwise(
                name="rotation",
                numel=s * (queries + 2 * kv * d),
                passes=2,
                eager_passes=12,
                over=Over.TP,
                backward=1.0,
            ),
        ),
        kept=(
            *kept_by_layer(
                positions=s,
                hidden=h,
                heads=heads,
                query_width=queries,
                kv_width=kv * d,
                ffn=f,
                ffn_kept=3,
                norm_numbers=1,
            ),
            Kept(numel=2 * s * d, over=Over.NOTHING, is_constant=True),
        ),
        tp_changes=(into_columns(stream, 2), out_of_rows(stream, 2)),
        output=stream,
    )


def _last(config: ModelConfig, stream: Edge) -> Block:
    vocab, s, h = config.vocab_size, config.seq_len, config.hidden
    assert vocab is not None
    head = _table(config, "head.weight", tied_to="embed.weight" if config.llama.is_tied else None)
    return Block(
        name="head",
        prefix="",
        tensors=(*norm("final_norm", h, has_bias=False), head),
        cost=h * vocab / _matrix_cost(config),
        operations=(Product(rows=s, out=vocab, into=h, split="out", has_bias=False),),
        kept=kept_by_head(positions=s, hidden=h, vocab_size=vocab, norm_numbers=1),
        tp_changes=(into_head(stream),),
        output=Edge(shape=(s, vocab), positions=None),
        loss_sums=(2, 3 * s),
    )


def hf_config(config: ModelConfig, *, eod: int | None) -> dict[str, Any]:
    """The ``config.json`` of the model."""
    keys, rope = config.llama, {"rope_theta": config.llama.rope_theta, "rope_type": "default"}
    if keys.rope_factor is not None:
        rope |= {
            "rope_type": "llama3",
            "factor": keys.rope_factor,
            "low_freq_factor": keys.rope_low,
            "high_freq_factor": keys.rope_high,
            "original_max_position_embeddings": keys.rope_positions,
        }
    scaling = None if keys.rope_factor is None else {k: v for k, v in rope.items() if k != "rope_theta"}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden,
        "intermediate_size": config.ffn_hidden,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": _kv_heads(config),
        "head_dim": head_size(config),
        "hidden_act": "silu",
        "max_position_embeddings": config.seq_len,
        "rms_norm_eps": config.layer_norm_eps,
        "initializer_range": config.init_std,
        # Version 5 of transformers reads `rope_parameters`, version 4 the other two.
        "rope_parameters": rope,
        "rope_theta": keys.rope_theta,
        "rope_scaling": scaling,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": eod,
        "eos_token_id": eod,
        "pad_token_id": eod,
        "tie_word_embeddings": keys.is_tied,
        "torch_dtype": "float32",
    }


def read_hf_config(document: Mapping[str, Any]) -> ModelConfig:
    """The keys of the model that a ``config.json`` describes. Raises EmberwardError K102 for what they cannot say."""
    hidden, heads = int(document["hidden_size"]), int(document["num_attention_heads"])
    rope = {**(document.get("rope_scaling") or {}), **(document.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    _require("rope_type", kind, ("default", "llama3"))
    _require("hidden_act", document.get("hidden_act", "silu"), ("silu",))
    width = int(document.get("head_dim") or hidden // heads)
    for name in ("attention_bias", "mlp_bias"):
        _require(name, document.get(name, False), (False,))
    scaled = kind == "llama3"
    return ModelConfig(
        family="llama",
        num_layers=int(document["num_hidden_layers"]),
        hidden=hidden,
        num_heads=heads,
        ffn_hidden=int(document["intermediate_size"]),
        vocab_size=int(document["vocab_size"]),
        seq_len=int(document["max_position_embeddings"]),
        layer_norm_eps=float(document["rms_norm_eps"]),
        init_std=float(document.get("initializer_range", _INIT_STD)),
        llama=LlamaConfig(
            num_kv_heads=int(document.get("num_key_value_heads") or heads),
            head_size=None if width * heads == hidden else width,
            rope_theta=float(rope.get("rope_theta", document.get("rope_theta", 10000.0))),
            rope_factor=float(rope["factor"]) if scaled else None,
            rope_low=float(rope["low_freq_factor"]) if scaled else 1.0,
            rope_high=float(rope["high_freq_factor"]) if scaled else 4.0,
            rope_positions=int(rope["original_max_position_embeddings"]) if scaled else 8192,
            is_tied=bool(document.get("tie_word_embeddings", False)),
        ),
    )


def _require(name: str, found: object, allowed: tuple[object, ...]) -> None:
    if found not in allowed:
        raise EmberwardError(
            "family llama has no such form of the model",
            code="K102",
            where=f"config.json: {name}",
            expected=" or ".join(map(str, allowed)),
            found=str(found),
        )
