"""A model as one value: its blocks, their tensors with declared placements, operations, edges and loss.

[Note: model]
A family makes it from a recipe's sizes; engine, memory, traffic, boxing log, predictions, proof and exchange read it
and nothing else of the family. Sizes alone: no module, no torch.

A model is a chain of blocks. The first block takes a sample's inputs and the last gives what the loss reads; between
them lie the layers, which pipeline stages are cut from. The first block stays with the first layer and the last block
with the last layer. One tensor passes from a block to the next, of any shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from emberward.layout._operations import Operation, Over
from emberward.layout._tensor_spec import TensorSpec


class DataKind(StrEnum):
    """What a sample is."""

    TOKENS = "tokens"
    """A run of token ids; the label of each is the next."""
    MASKED_TOKENS = "masked tokens"
    """A run of token ids of which some are hidden; the labels are those."""
    IMAGES = "images"
    """A picture with the number of its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one sample holds. `unit` is what the loss counts and averages over, at most `num_units` in a sample.

    Of masked tokens, `mask_id` stands for one that is hidden and `pad_id` for padding, which is never hidden.
    """

    kind: DataKind
    input_shape: tuple[int, ...]
    input_dtype: str
    label_shape: tuple[int, ...]
    unit: str
    num_units: int
    mask_id: int | None = None
    pad_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What passes between two blocks: a sample's part has `shape`, in the compute type.

    Where the sequence is split over tp, its dim `positions` is; None: it never is.
    """

    shape: tuple[int, ...]
    positions: int | None

    def local_shape(self, batch: int, tp: int, *, splits_positions: bool) -> tuple[int, ...]:
        """Shape with the batch dim of what one tensor-parallel rank holds."""
        shape = list(self.shape)
        if splits_positions and self.positions is not None:
            assert shape[self.positions] % tp == 0, f"tp {tp} does not divide {shape[self.positions]} positions"
            shape[self.positions] //= tp
        return (batch, *shape)


class Direction(StrEnum):
    """Which way a tensor changes its layout over tp."""

    ENTER = "enter"
    """Into layers split by columns. With split positions a gather, and in the backward a reduce-scatter; else nothing,
    and in the backward an all-reduce."""
    LEAVE = "leave"
    """Out of layers split by rows. With split positions a reduce-scatter, and in the backward a gather; else an
    all-reduce, and in the backward nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TpChange:
    """`times` changes of a kind over tp in one forward of a block. A sample's whole tensor has `shape`.

    `positions` is its dim that split positions divide; None: they never do, and the change is one without them.
    `name` and `gradient_name` are those of the boxing log, where `source` and `target` are the operations.
    """

    direction: Direction
    times: int
    shape: tuple[int, ...]
    positions: int | None
    name: str
    gradient_name: str
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """`numel` elements of a sample that lie in memory from a block's forward to its backward.

    `item_bytes` None: those of the compute type. `is_constant`: once for the block, whatever the number of samples (a
    mask). `only_split`: only where there is tensor parallelism.
    """

    numel: int
    over: Over
    item_bytes: int | None = None
    is_constant: bool = False
    only_split: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A unit that pipeline stages consist of, and of gathering and recomputation.

    `prefix` stands before the names of its module's parameters to make those of checkpoints (``blocks.3.``). `cost`
    balances stages, in any unit that the model's blocks share. `output` is the edge behind it. `loss_sums` are the
    calls and the float32 numbers of a sample that the loss sums over tp.
    """

    name: str
    prefix: str
    tensors: tuple[TensorSpec, ...]
    cost: float
    operations: tuple[Operation, ...]
    kept: tuple[Kept, ...]
    tp_changes: tuple[TpChange, ...]
    output: Edge
    loss_sums: tuple[int, int] = (0, 0)

    @property
    def numel(self) -> int:
        """Elements of its tensors, a tied one counted."""
        return sum(tensor.numel for tensor in self.tensors)

    @property
    def flops(self) -> int:
        """Forward operations of a sample."""
        return sum(operation.flops for operation in self.operations)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model of a family. See [Note: model]."""

    family: str
    sample: Sample
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if len(self.blocks) < 3:
            raise ValueError("a model has a first block, layers and a last block")
        first = {tensor.name for tensor in self.blocks[0].tensors}
        names: set[str] = set()
        for tensor in (tensor for block in self.blocks for tensor in block.tensors):
            if tensor.name in names:
                raise ValueError(f"{tensor.name} is declared twice")
            if tensor.tied_to is not None and tensor.tied_to not in first:
                raise ValueError(f"{tensor.name} is tied to {tensor.tied_to}, which the first block does not declare")
            names.add(tensor.name)

    @property
    def first(self) -> Block:
        """The block that takes a sample's inputs."""
        return self.blocks[0]

    @property
    def layers(self) -> tuple[Block, ...]:
        """The blocks between the first and the last."""
        return self.blocks[1:-1]

    @property
    def last(self) -> Block:
        """The block that gives what the loss reads."""
        return self.blocks[-1]

    def stage_blocks(self, layers: range) -> range:
        """Numbers of the blocks of a stage with those layers: the ends lie with the first and the last layer."""
        start = 0 if layers.start == 0 else layers.start + 1
        return range(start, layers.stop + (2 if layers.stop == len(self.layers) else 1))

    def tensors_of(self, blocks: range) -> Iterator[TensorSpec]:
        """The tensors that a stage of those blocks holds, each once: tied ones that lie together are one."""
        held: set[str] = set()
        for number in blocks:
            for tensor in self.blocks[number].tensors:
                if tensor.stored_name not in held:
                    held.add(tensor.stored_name)
                    yield tensor

    @cached_property
    def tensors(self) -> dict[str, TensorSpec]:
        """Every tensor by its stored name, in the order of the blocks."""
        return {tensor.stored_name: tensor for tensor in self.tensors_of(range(len(self.blocks)))}

    @cached_property
    def tied(self) -> frozenset[str]:
        """Stored names of the tensors that the first and the last block share."""
        return frozenset(tensor.tied_to for tensor in self.last.tensors if tensor.tied_to is not None)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor by its stored name."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole model, a tied one counted once."""
        return sum(tensor.numel for tensor in self.tensors.values())
