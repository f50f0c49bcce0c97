"""Where tensors live: meshes, axes, and how each axis holds a tensor. A floor-0 room: standard library only."""

from emberward.layout._decoder import Decoder, DecoderTensor
from emberward.layout._layout import Box, Broadcast, Layout, Partial, Placement, Split, chunk, local_box, local_shape
from emberward.layout._mesh import Axis, Mesh

__all__ = [
    "Axis",
    "Box",
    "Broadcast",
    "Decoder",
    "DecoderTensor",
    "Layout",
    "Mesh",
    "Partial",
    "Placement",
    "Split",
    "chunk",
    "local_box",
    "local_shape",
]
