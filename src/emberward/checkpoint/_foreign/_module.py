"""What a model's file holds: frozen parameters, buffers, tied names, and the copies to compute with.

Layout: DeepSpeed 0.19.8, measured (``runtime/engine.py`` ``_common_checkpoint_state``, ``runtime/pipe/module.py``):

- ``module`` has every name of the model, its parameters in the type that it computes in. Which of them are trained,
  ``param_shapes`` says; which are buffers, ``buffer_names``; ``shared_params`` maps a tied name to the one kept.
  ZeRO 1 says nothing more of frozen parameters.
- ZeRO 3 leaves parameters empty there, and keeps of each frozen one a rank's part in ``frozen_param_fragments``.
- A pipeline has no ``module``: each layer lies in ``layer_{LAYER}[-model_{TP}]-model_states.pt`` under its names within
  the layer. A tied layer's full names begin with ``tied_modules.KEY`` in place of its number.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emberward.checkpoint._foreign._contents import Held, Item
from emberward.checkpoint._foreign._evidence import Evidence
from emberward.checkpoint._foreign._read import Reader
from emberward.checkpoint._foreign._replicas import is_equal
from emberward.checkpoint._foreign._stored import Stored, concatenate, from_flat
from emberward.checkpoint._foreign._torch_file import TorchFile
from emberward.checkpoint._foreign._tree import TensorRef

LAYER = re.compile(r"layer_(\d+)(?:-model_(\d+))?-model_states\.pt")
TIED_PREFIX = "tied_modules."


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A model's file, sorted: `kept` are in no optimizer's file, `copies` repeat trained weights, `tied` name others.

    `items` are what is left out: copies, tied names, and values that are no tensors.
    """

    kept: dict[str, Stored] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    copies: dict[str, Stored] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)


def sort_module(
    found: Mapping[str, Any],
    trained: Mapping[str, tuple[int, ...]],
    buffers: Collection[str],
    shared: Mapping[str, str],
    evidence: Evidence,
) -> Module:
    """The tensors of a model's file, by their full names, sorted. Reads tied ones, to compare them."""
    module = Module()
    module.tied.update(shared)
    tensors = {name: stored for name, stored in found.items() if isinstance(stored, Stored)}
    originals = {_place(tensors[name]): name for name in tensors if name in trained and tensors[name].regions}
    for name, stored in tensors.items():
        original = shared.get(name, originals.get(_place(stored)) if stored.regions else None)
        if name in trained:
            if stored.regions:
                evidence.require_equal(_path(stored), f"the shape of {name}", trained[name], stored.shape)
                module.copies[name] = stored
        elif original is not None:
            module.tied[name] = original
            _require_tied(name, stored, tensors.get(original), evidence)
            module.items.append(Item(name=name, held=Held.TIED, why=f"the same as {original}", places=(stored,)))
        else:
            module.kept[name] = stored
            module.held[name] = Held.BUFFER if name in buffers else Held.FROZEN
    for name, stored in module.copies.items():
        why = "rounded from the weight in full precision, and compared with it"
        module.items.append(Item(name=name, held=Held.COPY, why=why, places=(stored,)))
    values = [name for name in found if name not in tensors]
    module.items.extend(Item(name=name, held=Held.VALUE, why="it is no tensor") for name in values)
    return module


def _place(stored: Stored) -> Any:
    return (stored.shape, tuple((region.where, region.offset, region.strides) for region in stored.regions))


def _path(stored: Stored) -> Path:
    where = stored.regions[0].where
    assert isinstance(where, Path)
    return where


def _require_tied(name: str, stored: Stored, original: Stored | None, evidence: Evidence) -> None:
    if original is None or not stored.regions or not original.regions or _place(stored) == _place(original):
        return
    with Reader() as reader:
        if not is_equal(original, stored, reader):
            what = f"{name} is not the weight that it is tied to"
            evidence.contradict(_path(stored), what, f"the values of {original.name}", "others")


def names_in(head: TorchFile) -> dict[str, Any]:
    """Every value of ``module`` by its full name, tensors as stored ones; empty for a pipeline."""
    return dict(_flat(head, head.tree.get("module") or {}, ""))


def _flat(file: TorchFile, tree: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(file, value, f"{name}.")
        else:
            yield name, file.stored(value, name) if isinstance(value, TensorRef) else value


def frozen_of_zero_3(heads: Sequence[TorchFile]) -> dict[str, Stored]:
    """Frozen parameters of ZeRO 3: parts of each lie end to end over the ranks, the last ones padded."""
    made = {}
    for name, size in (heads[0].tree.get("frozen_param_shapes") or {}).items():
        parts = [head.stored(head.tree["frozen_param_fragments"][name], name) for head in heads]
        made[name] = from_flat(concatenate(name, parts, 0), 0, name, tuple(size))
    return made


def add_whole_fragments(module: Module, head: TorchFile, evidence: Evidence) -> None:
    """Compares the frozen parameters that ZeRO 2 keeps once more, whole, with those of the module."""
    shapes = head.tree.get("frozen_param_shapes") or {}
    for name, ref in (head.tree.get("frozen_param_fragments") or {}).items():
        again = head.stored(ref, name)
        if again.shape != tuple(shapes[name]):
            continue
        if name not in module.kept:
            module.kept[name], module.held[name] = again, Held.FROZEN
            continue
        with Reader() as reader:
            if _place(again) != _place(module.kept[name]) and not is_equal(module.kept[name], again, reader):
                what = f"its frozen {name} is not that of its module"
                evidence.contradict(head.path, what, "equal values", "others")
        why = "the same as in the module, and compared with it"
        module.items.append(Item(name=name, held=Held.COPY, why=why, places=(again,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A file of one layer of a pipeline. `tied_as` is its key among tied modules, None for a layer of its own."""

    index: int
    group_rank: int
    tied_as: str | None
    file: TorchFile

    @property
    def prefix(self) -> str:
        """What the full names of its tensors begin with."""
        return f"{self.index}." if self.tied_as is None else f"{TIED_PREFIX}{self.tied_as}."

    def tensors(self) -> dict[str, Any]:
        """Every value by its full name."""
        return dict(_flat(self.file, self.file.tree, self.prefix))


def layer_of_file(file: TorchFile, index: int, group_rank: int, known: Collection[str]) -> Layer:
    """A layer's file; `known` are the full names of parameters and buffers, which tell whether the layer is tied."""
    own = Layer(index=index, group_rank=group_rank, tied_as=None, file=file)
    if any(name in known for name in own.tensors()):
        return own
    keys = sorted({name.split(".")[1] for name in known if name.startswith(TIED_PREFIX)})
    for key in keys:
        tied = Layer(index=index, group_rank=group_rank, tied_as=key, file=file)
        if any(name in known for name in tied.tensors()):
            return tied
    return own
