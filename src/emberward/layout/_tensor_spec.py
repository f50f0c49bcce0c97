"""A tensor of a model as it is declared: its name, shape, first values, and how tensor-parallel ranks hold it."""

import math
from dataclasses import dataclass
from enum import StrEnum

from emberward.layout._layout import Box, chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """Drawn from a normal distribution around 0."""

    std: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Every element begins as `value`."""

    value: float


Init = Normal | Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Tensor-parallel ranks hold parts of dim `dim`, cut between `units` equal units (heads); None: between any two.

    The parts are those of `chunk`, so that units which tp does not divide leave the last ranks fewer or none. With
    `is_shared` and fewer units than ranks, tp / units neighbours hold one unit alike, and the gradients of their copies
    are partial sums (keys and values of grouped queries).
    """

    dim: int
    units: int | None = None
    is_shared: bool = False

    def part(self, length: int, tp: int, tp_rank: int) -> tuple[int, int]:
        """Range [start, stop) of the dim of `length` that a rank holds."""
        units = length if self.units is None else self.units
        assert length % units == 0, f"{units} units do not divide {length}"
        copies = self.copies(length, tp)
        start, stop = chunk(units, tp // copies, tp_rank // copies)
        return start * (length // units), stop * (length // units)

    def copies(self, length: int, tp: int) -> int:
        """How many neighbouring ranks hold each part alike; 1 where each holds its own."""
        units = length if self.units is None else self.units
        return tp // units if self.is_shared and units < tp and tp % units == 0 else 1


class GradientSum(StrEnum):
    """Whether what a rank computes of the gradient of a tensor that it holds whole is a partial sum over tp."""

    NEVER = "never"
    """Every rank computes all of it."""
    BY_POSITION = "by position"
    """A partial sum where positions are split (sequence parallelism), else all of it."""
    ALWAYS = "always"
    """A partial sum: each rank uses the tensor for its own heads, samples or columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Every tensor-parallel rank holds the tensor whole."""

    gradient: GradientSum


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A parameter of the whole model.

    `name` is that of checkpoints. `decays`: weight decay takes part of it. `tied_to` names the tensor that this one is
    and that another block holds as well; what is declared beside it must then be the same.
    """

    name: str
    shape: tuple[int, ...]
    over_tp: Cut | Whole
    init: Init
    decays: bool
    tied_to: str | None = None

    @property
    def numel(self) -> int:
        """Number of elements of the whole."""
        return math.prod(self.shape)

    @property
    def stored_name(self) -> str:
        """Its name in a checkpoint: a tied tensor is stored once."""
        return self.name if self.tied_to is None else self.tied_to

    def box(self, tp: int, tp_rank: int) -> Box:
        """The part that a tensor-parallel rank holds."""
        box = [(0, length) for length in self.shape]
        if isinstance(self.over_tp, Cut):
            dim = self.over_tp.dim
            box[dim] = self.over_tp.part(self.shape[dim], tp, tp_rank)
        return tuple(box)

    def local_shape(self, tp: int, tp_rank: int) -> tuple[int, ...]:
        """The shape of that part."""
        return tuple(stop - start for start, stop in self.box(tp, tp_rank))

    def copies(self, tp: int) -> int:
        """How many neighbouring tensor-parallel ranks hold each part alike: all of them hold a whole tensor."""
        if isinstance(self.over_tp, Whole):
            return tp
        return self.over_tp.copies(self.shape[self.over_tp.dim], tp)

    def is_partial(self, tp: int, *, splits_positions: bool) -> bool:
        """Whether a rank's gradient is a partial sum over the ranks that hold the same part."""
        if tp == 1:
            return False
        match self.over_tp:
            case Cut():
                return self.copies(tp) > 1
            case Whole(gradient=gradient):
                return gradient is GradientSum.ALWAYS or (gradient is GradientSum.BY_POSITION and splits_positions)
