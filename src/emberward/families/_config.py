"""The keys of a recipe's model. Each family reads some of them and refuses the others: see `Family.keys`."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """What family ``llama`` has beside the keys of the model."""

    num_kv_heads: int | None = None
    """Heads of keys and values, a divisor of `num_heads`; tp is a multiple or a divisor of it. Null: `num_heads`."""
    head_size: int | None = None
    """Width of a head, even. Null: `hidden` / `num_heads`; heads of Mistral Nemo and Qwen3 are wider or narrower."""
    rope_theta: float = 500000.0
    """Base of the wave lengths of rotary positions."""
    rope_factor: float | None = None
    """Llama 3.1's scaling: long waves turn slower by this factor. Null: none."""
    rope_low: float = 1.0
    """Waves longer than `rope_positions` / `rope_low` are scaled in full."""
    rope_high: float = 4.0
    """Waves shorter than `rope_positions` / `rope_high` are not scaled."""
    rope_positions: int = 8192
    """Positions that the model was trained on before the scaling."""
    is_tied: bool = False
    """The head's weight is the embedding's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobertaConfig:
    """What family ``roberta`` has beside the keys of the model."""

    mask_id: int | None = None
    """Id that stands for a hidden token. Null: the first one behind the tokenizer's; RoBERTa's own tokenizer: 50264."""
    pad_id: int = 1
    """Id of padding. Positions are counted from the one behind it, and it has none."""
    num_positions: int | None = None
    """Rows of the table of positions. Null: `seq_len` and the `pad_id` + 1 that are left out; roberta-base: 514."""
    num_token_types: int = 1
    """Rows of the table of token types, of which the first is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The network."""

    family: str = "bloom"
    """Which network: a family that comes with Emberward, or ``module:name`` of one of your own."""
    num_layers: int = 4
    """Number of layers between the embedding and the head."""
    hidden: int = 128
    """Width of the residual stream; a multiple of `num_heads` (llama: or `llama.head_size` is told)."""
    num_heads: int = 4
    """Attention heads of a layer; a multiple of `layout.tp`."""
    ffn_hidden: int | None = None
    """Width of the feed-forward layer, a multiple of `layout.tp`. Null: 4 x hidden; llama about 8/3."""
    vocab_size: int | None = None
    """Rows of the embedding, a multiple of `layout.tp`. Null: the tokenizer's, padded to a multiple of 128 and tp."""
    seq_len: int = 128
    """Tokens of a sample."""
    layer_norm_eps: float = 1e-5
    """What the norms add to the variance."""
    init_std: float | None = None
    """Standard deviation of the first weights. Null: bloom sqrt(0.3333 / hidden), as the 176B had it; others 0.02."""
    recompute: bool = False
    """Forget activations in forward and compute them again in backward: less memory, a third more work."""
    depths: tuple[int, ...] = (2, 2, 6, 2)
    """Layers of each stage of a network whose stages differ in width."""
    stage_heads: tuple[int, ...] = (3, 6, 12, 24)
    """Attention heads of the layers of each stage; at least `layout.tp`, which need not divide them."""
    window: int = 7
    """Rows and columns of tokens that attend to each other; at most those of the last stage."""
    mlp_ratio: float = 4.0
    """Width of the feed-forward layer over that of its stage."""
    image_size: int = 224
    """Rows and columns of an image."""
    patch_size: int = 4
    """Rows and columns of the pixels that make a token."""
    num_channels: int = 3
    """Channels of an image: 3, or 1 for grey ones."""
    num_classes: int = 1000
    """Classes of images."""
    drop_path: float = 0.0
    """Share of samples for which the last layer's attention is left out; before it less, linearly from 0 on."""
    dropout: float = 0.0
    """Share of the elements that dropout leaves out of a branch before it joins the stream."""
    attention_dropout: float = 0.0
    """Share of the attention's weights that dropout leaves out."""
    llama: LlamaConfig = field(default_factory=LlamaConfig)
    roberta: RobertaConfig = field(default_factory=RobertaConfig)
