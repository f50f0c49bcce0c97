"""What a micro-batch leaves in memory between its forward and its backward, as the engine runs it.

[Note: activations]
Korthikanti et al. 2022, section 4, count what backward needs of each operation; so do we, for this engine. A token of a
layer leaves, in elements of the compute type: the residual stream into each norm (2 h), each norm's result as the
products' input (2 h), queries, keys and values (h + 2 kv), attention's result (h), and of the feed-forward layer what
enters and leaves the activation (2 f; gated 3 f). Beside them float32: mean and deviation of each norm and one number a
head of the fused attention kernel; scores are never whole. With f = 4 h this is 16 h elements, 32 bytes times h in 16
bits: the paper's 34 s b h less its two dropout masks, and without its 5 a s^2 b of scores.

Over tp what the norms read is split when the sequence is; the products' inputs are kept gathered (the paper gathers
them again in the backward), the rest is split by heads and by width. Recomputation leaves the layer's input alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emberward.layout import Decoder
from emberward.plan._schedule import Schedule, Work

_FLOAT_BYTES, _ID_BYTES = 4, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How one micro-batch lies on a tensor-parallel rank. `compute_bytes` is the width of the compute type."""

    micro_batch: int
    tp: int
    sequence_parallel: bool
    compute_bytes: int
    recompute: bool

    def rows(self, decoder: Decoder) -> int:
        """Tokens of a micro-batch whose residual stream this rank holds."""
        split = self.tp if self.sequence_parallel else 1
        return self.micro_batch * decoder.seq_len // split

    def tokens(self, decoder: Decoder) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * decoder.seq_len

    def stream_bytes(self, decoder: Decoder) -> int:
        """The residual stream of a micro-batch on this rank: what travels between stages."""
        return self.rows(decoder) * decoder.hidden * self.compute_bytes


def layer_bytes(decoder: Decoder, tiling: Tiling) -> int:
    """What one layer leaves when all of it is kept. See [Note: activations]."""
    rows, tokens = tiling.rows(decoder), tiling.tokens(decoder)
    stats = 2 if decoder.has_bias else 1
    heads = decoder.num_heads // tiling.tp
    split = (
        2 * decoder.hidden + 2 * decoder.kv_width + (3 if decoder.is_gated else 2) * decoder.ffn_hidden
    ) // tiling.tp
    kept = rows * 2 * decoder.hidden + tokens * (2 * decoder.hidden + split)
    return kept * tiling.compute_bytes + _FLOAT_BYTES * (rows * 2 * stats + tokens * heads)


def kept_layer_bytes(decoder: Decoder, tiling: Tiling) -> int:
    """What one layer leaves between forward and backward: its input alone with recomputation."""
    return tiling.stream_bytes(decoder) if tiling.recompute else layer_bytes(decoder, tiling)


def first_bytes(decoder: Decoder, tiling: Tiling) -> int:
    """What the embedding and its norm leave."""
    ids = _ID_BYTES * tiling.tokens(decoder) + (tiling.tokens(decoder) if tiling.tp > 1 else 0)
    if not decoder.has_embed_norm:
        return ids
    return ids + tiling.stream_bytes(decoder) + 2 * _FLOAT_BYTES * tiling.rows(decoder)


def last_bytes(decoder: Decoder, tiling: Tiling) -> int:
    """What the final norm, the head and the loss leave: probabilities are float32, over this rank's vocabulary."""
    tokens = tiling.tokens(decoder)
    norm = tiling.stream_bytes(decoder) + (2 if decoder.has_bias else 1) * _FLOAT_BYTES * tiling.rows(decoder)
    head = tokens * decoder.hidden * tiling.compute_bytes
    return norm + head + tokens * (_FLOAT_BYTES * (decoder.vocab_size // tiling.tp) + _ID_BYTES)


def stage_bytes(decoder: Decoder, tiling: Tiling, *, num_layers: int, is_first: bool, is_last: bool) -> int:
    """What a stage leaves for one micro-batch. A stage that is not the last keeps its result until its backward."""
    kept = num_layers * kept_layer_bytes(decoder, tiling)
    kept += first_bytes(decoder, tiling) if is_first else 0
    return kept + (last_bytes(decoder, tiling) if is_last else tiling.stream_bytes(decoder))


def peak_bytes(schedule: Schedule, pp_rank: int, bytes_of_stage: Mapping[int, int] | Sequence[int]) -> int:
    """The most that a pipeline rank's order keeps at once, with `bytes_of_stage` for each micro-batch of a stage.

    1F1B keeps min(pp - rank, micro-batches) of them, GPipe all (Narayanan et al. 2021, section 2.2).
    """
    held = peak = 0
    for action in schedule.orders[pp_rank]:
        size = bytes_of_stage[action.stage]
        held += size if action.work is Work.FORWARD else -size
        peak = max(peak, held)
    return peak
