"""What the watches of torch's calls all ask: the tensors in a value, and whether a graph is compiled. Needs torch."""

import sys
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

MAX_PLAIN = 1 << 16
"""Elements of a list that are looked at."""


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value, and in its lists and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif isinstance(value, list | tuple) and len(value) <= MAX_PLAIN:
        for each in value:
            yield from tensors_in(each)


def is_gone(tensor: torch.Tensor) -> Callable[[], bool]:
    """Tells later whether the memory that a tensor stands in is gone, of one without any the tensor; keeps neither."""
    try:
        expired: Callable[[], bool] = StorageWeakRef(tensor.untyped_storage()).expired  # type: ignore[no-untyped-call]
    except RuntimeError:  # As `_picks.storage_of` has it.
        held = ref(tensor)
        return lambda: held() is None
    return expired


def has_compiled() -> bool:
    """Whether the program has compiled a graph: a hook or a mode of ours would have it compiled again."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["stats"].get("unique_graphs"))
