"""The tensors of a decoder: their names, shapes, and the dim that tensor parallelism splits.

Sizes alone: what plans memory and predicts time needs no module. Names are those of checkpoints, so that a tensor here
is the tensor of the engine (tests hold the two together).
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderTensor:
    """One parameter of the whole model. `tp_dim` is the dim split over tp; None: every tp rank holds it whole."""

    name: str
    shape: tuple[int, ...]
    tp_dim: int | None

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for length in self.shape:
            count *= length
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Sizes of a decoder-only transformer.

    As it stands: BLOOM (Le Scao et al. 2022): layer norms and biases, tied embedding with a norm of its own. Llama
    (Touvron et al. 2023) is `is_gated`, with fewer `num_kv_heads`, without biases, embedding norm or tied head, and
    with RMS norms. RoBERTa (Liu et al. 2019) is an encoder: not `is_causal`, with a `has_transform` before its head.
    """

    num_layers: int
    hidden: int
    num_heads: int
    ffn_hidden: int
    vocab_size: int
    seq_len: int
    num_kv_heads: int | None = None
    is_gated: bool = False
    has_bias: bool = True
    has_embed_norm: bool = True
    is_tied: bool = True
    is_causal: bool = True
    has_transform: bool = False

    @property
    def head_size(self) -> int:
        """Width of an attention head."""
        return self.hidden // self.num_heads

    @property
    def kv_width(self) -> int:
        """Width of the keys, and of the values: less than `hidden` with grouped queries (Ainslie et al. 2023)."""
        return self.head_size * (self.num_heads if self.num_kv_heads is None else self.num_kv_heads)

    def layer_tensors(self, layer: int) -> Iterator[DecoderTensor]:
        """The parameters of one layer."""
        h, f, at = self.hidden, self.ffn_hidden, f"blocks.{layer}."
        yield from self._norm(f"{at}attention_norm")
        yield from self._linear(f"{at}attention.qkv", h + 2 * self.kv_width, h, tp_dim=0)
        yield from self._linear(f"{at}attention.out", h, h, tp_dim=1)
        yield from self._norm(f"{at}mlp_norm")
        if self.is_gated:
            yield from self._linear(f"{at}mlp.gate", f, h, tp_dim=0)
        yield from self._linear(f"{at}mlp.up", f, h, tp_dim=0)
        yield from self._linear(f"{at}mlp.down", h, f, tp_dim=1)

    def first_tensors(self) -> Iterator[DecoderTensor]:
        """What the first stage holds beside its layers."""
        yield DecoderTensor(name="embed.weight", shape=(self.vocab_size, self.hidden), tp_dim=0)
        if self.has_embed_norm:
            yield from self._norm("embed_norm")

    def last_tensors(self, *, is_also_first: bool) -> Iterator[DecoderTensor]:
        """What the last stage holds beside its layers; a tied head is the embedding, held once on one stage."""
        yield from self._norm("final_norm")
        if not (self.is_tied and is_also_first):
            name = "embed.weight" if self.is_tied else "head.weight"
            yield DecoderTensor(name=name, shape=(self.vocab_size, self.hidden), tp_dim=0)

    def num_parameters(self) -> int:
        """Parameters of the whole model, a tied head counted once."""
        tensors = [*self.first_tensors(), *self.last_tensors(is_also_first=True)]
        return sum(tensor.numel for tensor in tensors) + self.num_layers * self.layer_numel()

    def layer_numel(self) -> int:
        """Parameters of one layer."""
        return sum(tensor.numel for tensor in self.layer_tensors(0))

    def _norm(self, name: str) -> Iterator[DecoderTensor]:
        yield DecoderTensor(name=f"{name}.weight", shape=(self.hidden,), tp_dim=None)
        if self.has_bias:
            yield DecoderTensor(name=f"{name}.bias", shape=(self.hidden,), tp_dim=None)

    def _linear(self, name: str, out: int, into: int, *, tp_dim: int) -> Iterator[DecoderTensor]:
        yield DecoderTensor(name=f"{name}.weight", shape=(out, into), tp_dim=tp_dim)
        if self.has_bias:
            yield DecoderTensor(name=f"{name}.bias", shape=(out,), tp_dim=0 if tp_dim == 0 else None)
