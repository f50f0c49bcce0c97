"""Where tensors live and what a model holds. A floor-0 room: standard library only."""

from emberward.layout._layout import Box, Broadcast, Layout, Partial, Placement, Split, chunk, local_box, local_shape
from emberward.layout._mesh import Axis, Mesh
from emberward.layout._model import Block, DataKind, Direction, Edge, Kept, Model, Sample, TpChange
from emberward.layout._operations import AttentionScores, Elementwise, Operation, Over, Product
from emberward.layout._tensor_spec import Constant, Cut, GradientSum, Init, Normal, TensorSpec, Whole

__all__ = [
    "AttentionScores",
    "Axis",
    "Block",
    "Box",
    "Broadcast",
    "Constant",
    "Cut",
    "DataKind",
    "Direction",
    "Edge",
    "Elementwise",
    "GradientSum",
    "Init",
    "Kept",
    "Layout",
    "Mesh",
    "Model",
    "Normal",
    "Operation",
    "Over",
    "Partial",
    "Placement",
    "Product",
    "Sample",
    "Split",
    "TensorSpec",
    "TpChange",
    "Whole",
    "chunk",
    "local_box",
    "local_shape",
]
