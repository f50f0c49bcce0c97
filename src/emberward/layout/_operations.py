"""What a block computes for one sample, as sizes: what a time is predicted from, and floating-point operations.

A rank's share of an operation is one part in tp of what lies `Over.TP`, and of what lies `Over.POSITIONS` where the
sequence is split.
"""

from dataclasses import dataclass
from enum import StrEnum


class Over(StrEnum):
    """What divides a quantity over tensor-parallel ranks."""

    NOTHING = "nothing"
    TP = "tp"
    """Heads or width: always."""
    POSITIONS = "positions"
    """The residual stream: where the sequence is split, as the recipe says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A linear layer over `rows` rows of a sample: [rows, into] x [into, out]. `split`: the dim that tp divides."""

    rows: int
    out: int
    into: int
    split: str | None
    """``out`` (columns), ``into`` (rows), or None."""
    has_bias: bool

    @property
    def flops(self) -> int:
        """Forward operations of a sample; a multiply-add is two."""
        return 2 * self.rows * self.out * self.into


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionScores:
    """Scores of `heads` heads and their use: `windows` windows of `positions` positions in a sample."""

    heads: int
    head_size: int
    positions: int
    is_causal: bool
    has_mask: bool
    """A mask or bias is added that a kernel must read: ALiBi's slopes, a table of relative positions."""
    windows: int = 1
    has_dropout: bool = False
    """Dropout by counter: no fused kernel draws it, so that the scores lie in memory."""
    added_width: int = 0
    """Columns that the kernel computes with beside a head's; not counted in `flops`, which are the model's."""

    @property
    def flops(self) -> int:
        """Forward operations of a sample, the causal half counted in full."""
        return 4 * self.windows * self.positions**2 * self.heads * self.head_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """Passes over `numel` elements of a sample, each a read or a write of memory in the compute type.

    `passes` where a compiler or a fused kernel runs them as one, `eager_passes` as operators of a framework run one by
    one; the backward makes `backward` and `eager_backward` times as many. `written_passes` and `written_backward`, both
    in passes: where a model's code writes a function out as arithmetic; None: as the eager ones. With `has_dropout` a
    mask of one byte is written beside. `is_norm`: fused, each row is also summed over, in the kernel that reads it.
    """

    name: str
    numel: int
    passes: float
    eager_passes: float
    over: Over
    has_dropout: bool = False
    backward: float = 1.5
    eager_backward: float = 1.5
    written_passes: float | None = None
    written_backward: float | None = None
    is_norm: bool = False

    @property
    def flops(self) -> int:
        """Not counted."""
        return 0


Operation = Product | AttentionScores | Elementwise
