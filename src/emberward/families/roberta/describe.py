"""RoBERTa as a `Model`, and as the configuration of transformers (5.23, models/roberta/configuration_roberta.py).

Tensors have the names of transformers' files.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from emberward.families._config import ModelConfig, RobertaConfig
from emberward.families._family import Misfit, WorkedOut
from emberward.families._sizes import heads_misfit, padded_vocabulary, tp_misfits
from emberward.families.pieces import (
    STREAM,
    ZEROS,
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

EMBEDDINGS, LAYERS, HEAD = "roberta.embeddings.", "roberta.encoder.layer.", "lm_head."
_TABLE = f"{EMBEDDINGS}word_embeddings.weight"


class Roberta:
    """The family. See `Family`."""

    name = "roberta"
    keys = frozenset(
        {
            "num_layers", "hidden", "num_heads", "ffn_hidden", "vocab_size", "seq_len", "layer_norm_eps", "init_std",
            "dropout", "attention_dropout", "roberta",
        }
    )  # fmt: skip
    modules = "emberward.families.roberta.modules"

    def work_out(self, config: ModelConfig, *, tokenizer_size: int, tp: int) -> Iterator[WorkedOut]:
        pad = config.roberta.pad_id
        yield WorkedOut(name="ffn_hidden", value=4 * config.hidden, reason="4 x hidden")
        yield padded_vocabulary(tokenizer_size, tp, num_more=1)
        yield WorkedOut(name="init_std", value=0.02, reason="RoBERTa's, as transformers has it")
        yield WorkedOut(name="roberta.mask_id", value=tokenizer_size, reason="the first id behind the tokenizer's")
        yield WorkedOut(
            name="roberta.num_positions",
            value=config.seq_len + pad + 1,
            reason=f"model.seq_len {config.seq_len} and the {pad + 1} that RoBERTa leaves out",
        )

    def misfits(self, config: ModelConfig, *, tp: int) -> Iterator[Misfit]:
        yield from heads_misfit(config)
        yield from _ids_misfit(config)
        sizes = {"num_heads": config.num_heads, "ffn_hidden": config.ffn_hidden, "vocab_size": config.vocab_size}
        yield from tp_misfits(sizes, tp)

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
                kind=DataKind.MASKED_TOKENS,
                input_shape=(config.seq_len,),
                input_dtype="int64",
                label_shape=(config.seq_len,),
                unit="tokens",
                num_units=config.seq_len,
                mask_id=config.roberta.mask_id,
                pad_id=config.roberta.pad_id,
            ),
            blocks=(_first(config, stream), *layers, _last(config, stream)),
        )

    def hf_config(self, config: ModelConfig, *, eod: int | None) -> dict[str, Any]:
        return {
            "architectures": ["RobertaForMaskedLM"],
            "model_type": "roberta",
            "vocab_size": config.vocab_size,
            "hidden_size": config.hidden,
            "num_hidden_layers": config.num_layers,
            "num_attention_heads": config.num_heads,
            "intermediate_size": config.ffn_hidden,
            "hidden_act": "gelu",
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "max_position_embeddings": config.roberta.num_positions,
            "type_vocab_size": config.roberta.num_token_types,
            "initializer_range": config.init_std,
            "layer_norm_eps": config.layer_norm_eps,
            "bos_token_id": eod,
            "eos_token_id": eod,
            "pad_token_id": config.roberta.pad_id,
            # transformers keeps this one without reading it.
            "mask_token_id": config.roberta.mask_id,
            "tie_word_embeddings": True,
            "torch_dtype": "float32",
        }

    def read_hf_config(self, document: Mapping[str, Any]) -> ModelConfig:
        """The keys of the model that a ``config.json`` describes. Raises EmberwardError K102 for what they cannot say.

        Where it names no mask token, `roberta.mask_id` is left open.
        """
        _require("hidden_act", document.get("hidden_act", "gelu"), "gelu")
        _require("position_embedding_type", document.get("position_embedding_type", "absolute"), "absolute")
        _require("tie_word_embeddings", document.get("tie_word_embeddings", True), True)
        pad, positions, mask = (
            int(document.get("pad_token_id", 1)),
            int(document.get("max_position_embeddings", 512)),
            document.get("mask_token_id"),
        )
        # Fields that a file may leave out have the defaults of transformers' class, not those of the published models.
        return ModelConfig(
            family=self.name,
            num_layers=int(document["num_hidden_layers"]),
            hidden=int(document["hidden_size"]),
            num_heads=int(document["num_attention_heads"]),
            ffn_hidden=int(document["intermediate_size"]),
            vocab_size=int(document["vocab_size"]),
            seq_len=positions - pad - 1,
            layer_norm_eps=float(document.get("layer_norm_eps", 1e-12)),
            init_std=float(document.get("initializer_range", 0.02)),
            dropout=float(document.get("hidden_dropout_prob", 0.1)),
            attention_dropout=float(document.get("attention_probs_dropout_prob", 0.1)),
            roberta=RobertaConfig(
                num_positions=positions,
                num_token_types=int(document.get("type_vocab_size", 2)),
                pad_id=pad,
                mask_id=None if mask is None else int(mask),
            ),
        )


FAMILY = Roberta()


def _require(name: str, found: object, expected: object) -> None:
    if found != expected:
        raise EmberwardError(
            "family roberta has no such form of the model",
            code="K102",
            where=f"config.json: {name}",
            expected=str(expected),
            found=str(found),
        )


def _ids_misfit(config: ModelConfig) -> Iterator[Misfit]:
    """Whether the special tokens lie in the vocabulary and the positions in their table."""
    keys, vocab = config.roberta, config.vocab_size
    if keys.num_positions is not None and config.seq_len + keys.pad_id + 1 > keys.num_positions:
        most = keys.num_positions - keys.pad_id - 1
        yield Misfit(
            what="the table of positions is too short",
            expected=f"model.seq_len at most {most}: RoBERTa leaves out the first {keys.pad_id + 1} positions",
            names=("model.seq_len", "model.roberta.num_positions", "model.roberta.pad_id"),
        )
    for name, token in (("mask_id", keys.mask_id), ("pad_id", keys.pad_id)):
        if vocab is not None and token is not None and token >= vocab:
            yield Misfit(
                what="a special token lies outside the vocabulary",
                expected=f"model.roberta.{name} below model.vocab_size",
                names=(f"model.roberta.{name}", "model.vocab_size"),
            )
    if keys.mask_id == keys.pad_id:
        yield Misfit(
            what="hidden tokens and padding cannot be told apart",
            expected="model.roberta.mask_id other than model.roberta.pad_id",
            names=("model.roberta.mask_id", "model.roberta.pad_id"),
        )


def _std(config: ModelConfig) -> float:
    assert config.init_std is not None
    return config.init_std


def _vocabulary(config: ModelConfig) -> int:
    assert config.vocab_size is not None
    return config.vocab_size


def _dropped(config: ModelConfig, positions: int, times: int) -> tuple[Kept, ...]:
    """The masks of `times` dropouts of the stream: a byte an element."""
    mask = Kept(numel=times * positions * config.hidden, over=Over.POSITIONS, item_bytes=1)
    return (mask,) if config.dropout else ()


def _first(config: ModelConfig, stream: Edge) -> Block:
    s, h, keys = config.seq_len, config.hidden, config.roberta
    assert keys.num_positions is not None
    table = TensorSpec(
        name=_TABLE, shape=(_vocabulary(config), h), over_tp=Cut(dim=0), init=Normal(std=_std(config)), decays=True
    )
    others = tuple(
        TensorSpec(
            name=f"{EMBEDDINGS}{name}.weight",
            shape=(length, h),
            over_tp=STREAM,
            init=Normal(std=_std(config)),
            decays=True,
        )
        for name, length in (
            ("position_embeddings", keys.num_positions),
            ("token_type_embeddings", keys.num_token_types),
        )
    )
    return Block(
        name="embeddings",
        prefix=EMBEDDINGS,
        tensors=(table, *others, *norm(f"{EMBEDDINGS}LayerNorm", h)),
        cost=_vocabulary(config) / (12 * h),
        operations=(Elementwise(name="look-up", numel=s * h, passes=8, eager_passes=10, over=Over.NOTHING),),
        kept=(
            *kept_by_embedding(positions=s),
            Kept(numel=s, over=Over.POSITIONS, item_bytes=8),  # the positions, for their table's gradient
            Kept(numel=s * h, over=Over.POSITIONS),
            Kept(numel=2 * s, over=Over.POSITIONS, item_bytes=4),
            *_dropped(config, s, 1),
        ),
        tp_changes=(out_of_embedding(stream),),
        output=stream,
    )


def _layer(config: ModelConfig, number: int, stream: Edge) -> Block:
    assert config.ffn_hidden is not None
    at, h, f, s, heads = f"{LAYERS}{number}.", config.hidden, config.ffn_hidden, config.seq_len, config.num_heads
    std, has_dropout = _std(config), config.dropout > 0
    scores = heads * s * s
    # Shares as the softmax gives them and as dropout leaves them, and which it keeps.
    dropped = (Kept(numel=2 * scores, over=Over.TP), Kept(numel=scores, over=Over.TP, item_bytes=1))
    return Block(
        name=f"layer {number}",
        prefix=at,
        tensors=(
            *(
                spec
                for each in ("query", "key", "value")
                for spec in columns(f"{at}attention.self.{each}", h, h, std=std, units=heads)
            ),
            *rows(f"{at}attention.output.dense", h, h, std=std, units=heads),
            *norm(f"{at}attention.output.LayerNorm", h),
            *columns(f"{at}intermediate.dense", f, h, std=std),
            *rows(f"{at}output.dense", h, f, std=std),
            *norm(f"{at}output.LayerNorm", h),
        ),
        cost=1.0,
        operations=(
            Product(rows=s, out=3 * h, into=h, split="out", has_bias=True),
            AttentionScores(
                heads=heads,
                head_size=h // heads,
                positions=s,
                is_causal=False,
                has_mask=False,
                has_dropout=config.attention_dropout > 0,
            ),
            Product(rows=s, out=h, into=h, split="into", has_bias=True),
            Product(rows=s, out=f, into=h, split="out", has_bias=True),
            Product(rows=s, out=h, into=f, split="into", has_bias=True),
            Elementwise(name="norms", numel=s * h, passes=4, eager_passes=4, over=Over.POSITIONS, is_norm=True),
            Elementwise(
                name="additions", numel=s * h, passes=6, eager_passes=6, over=Over.POSITIONS, has_dropout=has_dropout
            ),
            Elementwise(name="activation", numel=s * f, passes=2, eager_passes=2, over=Over.TP),
            Elementwise(name="query, key, value", numel=s * 3 * h, passes=2, eager_passes=2, over=Over.TP),
        ),
        kept=(
            *kept_by_layer(positions=s, hidden=h, heads=heads, kv_width=h, ffn=f, ffn_kept=2, norm_numbers=2),
            *_dropped(config, s, 2),
            *(dropped if config.attention_dropout else ()),
        ),
        tp_changes=(into_columns(stream, 2), out_of_rows(stream, 2)),
        output=stream,
    )


def _last(config: ModelConfig, stream: Edge) -> Block:
    vocab, s, h = _vocabulary(config), config.seq_len, config.hidden
    decoder = TensorSpec(
        name=f"{HEAD}decoder.weight",
        shape=(vocab, h),
        over_tp=Cut(dim=0),
        init=Normal(std=_std(config)),
        decays=True,
        tied_to=_TABLE,
    )
    bias = TensorSpec(name=f"{HEAD}bias", shape=(vocab,), over_tp=Cut(dim=0), init=ZEROS, decays=False)
    return Block(
        name="head",
        prefix=HEAD,
        tensors=(
            *linear(f"{HEAD}dense", h, h, over_tp=STREAM, init=Normal(std=_std(config)), has_bias=True),
            *norm(f"{HEAD}layer_norm", h),
            decoder,
            bias,
        ),
        cost=(vocab + h) / (12 * h),
        operations=(
            Product(rows=s, out=h, into=h, split=None, has_bias=True),
            Product(rows=s, out=vocab, into=h, split="out", has_bias=True),
        ),
        kept=(
            Kept(numel=2 * s * h, over=Over.POSITIONS),  # the input of dense, and of its activation
            *kept_by_head(positions=s, hidden=h, vocab_size=vocab, norm_numbers=2),
        ),
        tp_changes=(into_head(stream),),
        output=Edge(shape=(s, vocab), positions=None),
        loss_sums=(2, 3 * s),
    )
