"""Tables of embeddings whose gradient is made whole for a few rows. Needs torch.

[Note: dense gradients]
The gradient of a table of embeddings has other numbers than zeros in the rows alone that a step has looked up. Unless
the embedding is told to be ``sparse``, all of it is made, and the optimizer goes through all of it. Counted are the
rows that each step looks up, of tables that nothing else of the step computes with: of an output layer that has the
same weight, each row gets a gradient. And only where an optimizer leaves a row as it is that gets none: plain SGD and
Adagrad do, a momentum and a decay of weights go on. Adam moves each row by its momentum too; for tables there is
``SparseAdam``, in which the moments of such rows stand still, and which is used for that (its documentation calls it a
masked version of Adam): another training, in little.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules

from emberward.sources._gradients import optimizers, parameters_of
from emberward.sources._site import SiteFinder

MAX_LOOKED_UP = 1 << 20
"""Numbers of rows of one call; of more nothing is said."""
_SPARSE = {nn.functional.embedding: 6, nn.functional.embedding_bag: 7}
"""The place of the argument ``sparse`` of each function that looks up."""
_MADE: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
_FINDER = SiteFinder()


@dataclass(slots=True)
class _Table:
    site: str
    shape: tuple[int, ...]
    now: list[torch.Tensor] = field(default_factory=list)
    """Rows that this step has looked up."""
    shares: list[float] = field(default_factory=list)
    """Of each step the share of the rows that it looks up."""


class TablesWatch:
    """Follows the lookups of a step. All but `lines` is for the training thread."""

    def __init__(self) -> None:
        self._sites: dict[int, str] = {}
        self._tables: dict[int, _Table] = {}
        self._others: set[int] = set()
        """Weights that something else computes with."""

    def enter(self, module: nn.Module) -> None:
        """A module runs."""
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module in _MADE:
            self._sites[id(module.weight)] = _MADE[module]

    def note(self, func: Any, args: Any, named: Any, given: Sequence[torch.Tensor], has_graph: bool) -> None:
        """A call; `has_graph`: whether what it gave requires a gradient."""
        if not (has_graph and torch.is_grad_enabled()):
            return
        weight = None
        if func in _SPARSE:
            ids = args[0] if args else named["input"]
            weight = args[1] if len(args) > 1 else named["weight"]
            is_sparse = named.get("sparse", args[_SPARSE[func]] if len(args) > _SPARSE[func] else False)
            if id(weight) in self._sites and weight.is_leaf and ids.numel() <= MAX_LOOKED_UP and not is_sparse:
                table = self._tables.setdefault(id(weight), _Table(self._sites[id(weight)], tuple(weight.shape)))
                table.now.append(torch.unique(ids.detach()))
        self._others |= {id(each) for each in given if each is not weight and isinstance(each, nn.Parameter)}

    def stepped(self) -> None:
        """A step has ended."""
        for table in self._tables.values():
            if table.now:
                table.shares.append(len(torch.unique(torch.cat(table.now))) / max(table.shape[0], 1))
                table.now.clear()

    def forget(self) -> None:
        """What was seen so far counts no more."""
        self._tables.clear()

    def stop(self) -> None:
        """Ends it: keeps the tables whose rows may stay as they are without a gradient."""
        wanted = {
            weight: table for weight, table in self._tables.items() if weight not in self._others and table.shares
        }
        self._tables = {}
        for optimizer in optimizers() if wanted else ():
            if all(_leaves_rows(optimizer, group) for group in optimizer.param_groups):
                owned = {id(each) for each in parameters_of(optimizer)}
                self._tables |= {weight: table for weight, table in wanted.items() if weight in owned}

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each table the line that made it, its shape, and the share of its rows that
        a step looks up."""
        for table in self._tables.values():
            yield {"table": [table.site, table.shape, sum(table.shares) / len(table.shares)]}


def _leaves_rows(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> bool:
    """Whether a row without a gradient stays as it is, in the optimizer or in its version for sparse gradients."""
    is_plain = type(optimizer) in (torch.optim.SGD, torch.optim.Adagrad, torch.optim.Adam)
    return is_plain and not any(group.get(name) for name in ("weight_decay", "momentum", "amsgrad"))


def watch_tables() -> Callable[[], None]:
    """Notes from now on where the program makes its embeddings. Returns what ends that."""

    def registers(module: nn.Module, name: str, parameter: Any) -> None:
        del name, parameter
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            with contextlib.suppress(Exception):  # A line is not worth the program.
                site = _FINDER.here()
                if site is not None:
                    _MADE.setdefault(module, f"{site.file}:{site.line}")

    return modules.register_module_parameter_registration_hook(registers).remove
