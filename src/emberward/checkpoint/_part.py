"""A part of a logical tensor in this process's memory, as bits: what is written from and read into, without torch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emberward.checkpoint._boxes import box_shape, box_text, is_inside
from emberward.checkpoint._format import DType
from emberward.layout import Box

UintArray = NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The elements of `box` of the tensor `name`.

    `bits` views them as little-endian unsigned integers of the element's size, C-contiguous, shaped as the box; a
    reader writes through it.
    """

    name: str
    dtype: DType
    global_shape: tuple[int, ...]
    box: Box
    bits: UintArray

    def __post_init__(self) -> None:
        if not is_inside(self.box, self.global_shape):
            raise ValueError(f"{self.name}: box {box_text(self.box)} is not within shape {self.global_shape}")
        if self.bits.shape != box_shape(self.box):
            raise ValueError(f"{self.name}: box {box_text(self.box)} needs another shape than {self.bits.shape}")
        if self.bits.dtype != np.dtype(f"<u{self.dtype.item_bytes}") or not self.bits.flags.c_contiguous:
            raise ValueError(f"{self.name}: bits of {self.bits.dtype} do not hold {self.dtype} row-major")

    @property
    def key(self) -> str:
        """Its key in a data file: name and box, so that a file read with other tools still says what it holds."""
        return self.name + box_text(self.box)

    def raw(self) -> memoryview:
        """Its bytes, without a copy."""
        return self.bits.reshape(-1).view(np.uint8).data
