"""Gradients that a backward computes for parameters and nothing reads. Needs torch.

[Note: unread gradients]
While steps are observed each parameter of a module that runs tells when a backward has added to its gradient, each
optimizer when it reads gradients, and when it or a module clears them. What was added is unread where it is cleared, or
another tensor stands in its place, before an optimizer of the parameter's steps; or where no optimizer has the
parameter, nobody cleared anything, and its numbers are those from before. Before a backward begins its graph is
walked, from the loss to the leaves: a node from which no gradient is reached that is read computes for nothing. A node
of a function that Python defines (a checkpoint, a compiled graph) may do more than its graph shows, and counts as one
that is read, as does a leaf that is no parameter, unless nobody reads gradients of such ([Note: gradients of inputs]).
Of a product that is needed for its weights and not for what it is given, half is for nothing: both gradients are
products of as many multiplications. So it is the other way round in a backward that is wanted for inputs alone, as an
attack's, none of whose gradients of parameters is read.

Nodes that an earlier backward of a kept graph went through too, whose gradients are added up without a read between,
would have been gone through once by a backward of the sum.

It is told at the program's line that calls the backward. Where a library does, and no optimizer has any of the
parameters, at the line that made the optimizer: there the program chose what is trained.
"""

import contextlib
import functools
import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from emberward.events import Owner, main_package, owner_of
from emberward.sources._inputs import InputsWatch
from emberward.sources._quiet import quiet
from emberward.sources._site import MAX_FRAMES, SiteFinder

MAX_MARKED = 4096
"""Elements of a parameter by which is seen whether anybody has changed it."""
MIN_BACKWARDS = 3
"""Backwards that add to a gradient which nobody clears, until it is one that nobody will read."""
MAX_NODES = 20_000
"""Of a graph, some 4 us each; of a larger one nothing is said."""
MAX_BEFORE = 8
"""Backwards before one, with which its graph is compared."""
_INPUTS = 4
"""Argument of torch's own function that runs a backward: leaves that alone get a gradient, none for all."""
_PRODUCTS = ("Convolution", "Addmm", "Mm", "Bmm", "Baddbmm", "Linear")
"""Nodes of products, by how their names begin."""
_READ, _CLEARED = "read", "cleared"
MADE: weakref.WeakKeyDictionary[Optimizer, str] = weakref.WeakKeyDictionary()
"""File:line of the program that made each optimizer of this process, since `watch_making`."""
_FINDER = SiteFinder()


@dataclass(slots=True)
class _Node:
    sequence: int
    leaf: int | None
    """The tensor whose gradient it adds to."""
    is_known: bool
    is_product: bool
    is_input: bool
    """A leaf that is no parameter."""
    above: list[int] = field(default_factory=list)
    """The nodes that give to it."""


@dataclass(slots=True)
class _Backward:
    site: str
    is_own: bool
    """Whether the program itself calls it, and no library."""
    began_ns: int
    graph: list[_Node]
    ended_ns: int = 0
    added: list[tuple[int, int]] = field(default_factory=list)
    """Of each gradient that was added to: its parameter, and which of its events that is."""


class _Watched:
    """A parameter and what became of its gradient, in order: a number of a backward, `_READ` or `_CLEARED`."""

    __slots__ = ("before", "events", "grad", "parameter")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter = parameter
        self.before = _state(parameter)
        self.events: list[int | str] = []
        self.grad: Callable[[], Any] = lambda: None

    @property
    def is_left(self) -> bool:
        """Whether it was added to, and nobody read or cleared it."""
        return bool(self.events) and not any(isinstance(each, str) for each in self.events)

    def is_read(self, index: int, owned: set[int]) -> bool:
        """Whether an optimizer may have read, or may still read, what the event of that index added."""
        after = next((each for each in self.events[index + 1 :] if isinstance(each, str)), None)
        if after is not None:
            return after == _READ
        is_often = len(self.events) >= MIN_BACKWARDS
        is_free = self.is_left and is_often and id(self.parameter) not in owned
        return not (is_free and _state(self.parameter) == self.before)


class GradientWatch:
    """What backwards of the observed steps compute gradients for. All but `lines` is for the training thread."""

    def __init__(self, inputs: InputsWatch) -> None:
        self._inputs = inputs
        self._watched: dict[int, _Watched] = {}
        self._backwards: list[_Backward] = []
        self._undo: list[Callable[[], None]] = []
        self._unread: list[dict[str, Any]] = []
        self._is_lost = False

    def start(self) -> None:
        """Begins to note what optimizers read and clear."""
        self._undo.append(register_optimizer_step_pre_hook(quiet(self._steps, self._failed)).remove)
        for owner, held in ((Optimizer, parameters_of), (torch.nn.Module, torch.nn.Module.parameters)):
            self._watch_clearing(owner, held)

    def watch(self, module: torch.nn.Module) -> None:
        """A module runs: its parameters are watched. Sharded ones are not, for FSDP moves their gradients itself."""
        for parameter in module.parameters():
            # One that an operation has written into is the graph's, and no leaf any more.
            is_own = parameter.requires_grad and parameter.is_leaf and type(parameter) is torch.nn.Parameter
            if is_own and id(parameter) not in self._watched:
                register: Any = parameter.register_post_accumulate_grad_hook
                self._undo.append(register(quiet(self._added, self._failed)).remove)
                self._watched[id(parameter)] = _Watched(parameter)

    def begins(self, site: str, *args: Any, **named: Any) -> _Backward:
        """A backward begins, at that line of the program, with those arguments of torch's own function. `ends` takes
        what it gives."""
        is_whole = named.get("accumulate_grad") and not any(args[_INPUTS : _INPUTS + 1]) and self._watched
        graph: list[_Node] = []
        if is_whole:
            with contextlib.suppress(Exception):  # The program's backward runs, whatever its graph is like.
                graph = _graph_of(args[0])
        self._backwards.append(_Backward(site, _is_of_program(), time.time_ns(), graph))
        return self._backwards[-1]

    def ends(self, backward: _Backward) -> None:
        """That backward has ended."""
        backward.ended_ns = time.time_ns()

    def stop(self) -> None:
        """Ends it and finds what is unread."""
        while self._undo:
            self._undo.pop()()
        if self._is_lost:
            self._watched.clear()
            self._backwards.clear()
        # Of inputs that require gradients nobody says whether an optimizer has them.
        asks_inputs = self._inputs.has_seen and not self._inputs.is_read
        inputs = [
            {node.leaf for node in each.graph if node.is_input} if asks_inputs else set() for each in self._backwards
        ]
        owned: set[int] = set()
        if any(inputs) or any(each.is_left for each in self._watched.values()):
            owned = {id(parameter) for optimizer in optimizers() for parameter in parameters_of(optimizer)}
        for backward, given in zip(self._backwards, inputs, strict=True):
            unread = {each for each, index in backward.added if not self._watched[each].is_read(index, owned)}
            numel = sum(self._watched[each].parameter.numel() for each in unread)
            site = None if backward.is_own else self._made_at(unread)
            is_for_inputs = len(unread) == len({each for each, _ in backward.added})
            of_parameters = {"parameters": len(unread), "numel": numel}
            self._note_unread(backward, unread, site, of_parameters, has_halves=is_for_inputs)
            of_inputs = {"inputs": len(given - owned)}
            self._note_unread(backward, given - owned, self._inputs.site, of_inputs, has_halves=True)
        self._unread += [found for i in range(1, len(self._backwards)) if (found := self._again(i)) is not None]
        self._watched.clear()
        self._backwards.clear()

    def _failed(self, error: Exception) -> None:
        """What was added and read is known no more: nothing is told."""
        del error
        self._is_lost = True

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations, one for each backward that computes gradients which nobody reads, or goes
        through what another one went through."""
        for each in self._unread:
            yield {"unread": each}

    def _added(self, parameter: torch.Tensor) -> None:
        watched = self._watched.get(id(parameter))
        open_ones = [each for each in self._backwards if not each.ended_ns]
        if watched is None or not open_ones:
            return
        if watched.events and watched.grad() is not parameter.grad:
            watched.events.append(_CLEARED)
        watched.grad = weakref.ref(parameter.grad) if parameter.grad is not None else lambda: None
        open_ones[-1].added.append((id(parameter), len(watched.events)))
        watched.events.append(len(self._backwards))

    def _steps(self, optimizer: Optimizer, args: Any, named: Any) -> None:
        del args, named
        self._note(parameters_of(optimizer), _READ)

    def _note(self, parameters: Iterable[torch.Tensor], what: str) -> None:
        for parameter in parameters:
            watched = self._watched.get(id(parameter))
            if watched is not None and watched.events:
                watched.events.append(what)

    def _watch_clearing(self, owner: Any, held: Callable[[Any], Iterable[torch.Tensor]]) -> None:
        original = owner.zero_grad
        note = quiet(lambda it: self._note(held(it), _CLEARED), self._failed)

        def zero_grad(it: Any, *args: Any, **named: Any) -> Any:
            note(it)
            return original(it, *args, **named)

        owner.zero_grad = zero_grad
        self._undo.append(lambda: setattr(owner, "zero_grad", original))

    def _note_unread(
        self, backward: _Backward, unread: Set[int | None], site: str | None, of: dict[str, int], *, has_halves: bool
    ) -> None:
        """Keeps the nodes of a backward that no gradient needs but the unread ones, and the products that need half.

        A net that judges another one is gone through for what it is given: that it computes more is no mistake.
        """
        if not unread or not backward.ended_ns:
            return
        graph = backward.graph
        is_needed = [not node.is_known or (node.leaf is not None and node.leaf not in unread) for node in graph]
        front = [number for number, needed in enumerate(is_needed) if needed]
        while front:
            for above in graph[front.pop()].above:
                if not is_needed[above]:
                    is_needed[above] = True
                    front.append(above)
        idle = [node for node, needed in zip(graph, is_needed, strict=True) if not needed]
        whole = [node.sequence for node in idle if node.leaf is None]
        halves = (graph[above] for node in idle for above in node.above if is_needed[above]) if has_halves else ()
        half = sorted({node.sequence for node in halves if node.is_product})
        if whole or half:
            spans = {"backward": [backward.began_ns, backward.ended_ns], "site": site or backward.site}
            self._unread.append({"sequences": whole, "half": half, **spans, **of})

    def _again(self, number: int) -> dict[str, Any] | None:
        """The nodes of a backward that one before it went through, to gradients that both have added to."""
        backward = self._backwards[number]
        own = {node.sequence for node in backward.graph if node.leaf is None}
        for earlier in range(number - 1, max(number - 1 - MAX_BEFORE, -1), -1):
            before = self._backwards[earlier]
            shared = own & {node.sequence for node in before.graph if node.leaf is None}
            added = {each for each, _ in before.added}
            both = [(each, index) for each, index in backward.added if each in added]
            # The event before is the earlier backward's: nobody read or cleared what that had added.
            if shared and both and all(self._watched[each].events[index - 1] == earlier + 1 for each, index in both):
                return {
                    "sequences": sorted(shared),
                    "backward": [backward.began_ns, backward.ended_ns],
                    "site": before.site,
                    "parameters": len(both),
                    "numel": sum(self._watched[each].parameter.numel() for each, _ in both),
                    "again": True,
                }
        return None

    def _made_at(self, unread: set[int]) -> str | None:
        """The one line that made optimizers which stepped, where no optimizer has any of the unread parameters."""
        known = {id(each): site for optimizer, site in MADE.items() for each in parameters_of(optimizer)}
        stepped = {known.get(number) for number, each in self._watched.items() if _READ in each.events} - {None}
        return stepped.pop() if len(stepped) == 1 and not unread & known.keys() else None


def watch_making() -> None:
    """Notes from now on where the program makes its optimizers."""
    optimizers: Any = Optimizer
    original: Callable[..., None] = optimizers.__init__

    @functools.wraps(original)
    def __init__(optimizer: Optimizer, *args: Any, **named: Any) -> None:
        original(optimizer, *args, **named)
        with contextlib.suppress(Exception):  # A line is not worth the program.
            site = _FINDER.here()
            if site is not None:
                MADE[optimizer] = f"{site.file}:{site.line}"

    optimizers.__init__ = __init__


def _is_of_program() -> bool:
    """Whether the program calls torch here, and no library between."""
    frame = sys._getframe(2)
    for _ in range(MAX_FRAMES):
        owner = owner_of(frame.f_code.co_filename, main_package())
        if owner in (Owner.USER, Owner.PACKAGE) or frame.f_back is None:
            return owner is Owner.USER
        frame = frame.f_back
    return False


def _graph_of(roots: Iterable[torch.Tensor]) -> list[_Node]:
    """The nodes of a backward from these tensors; none where there are too many. A tensor that is a leaf has none."""
    numbers: dict[Any, int] = {}
    graph: list[_Node] = []

    def number_of(node: Any) -> int:
        if node not in numbers:
            numbers[node] = len(graph)
            variable = getattr(node, "variable", None)
            is_known = not isinstance(node, torch.autograd.function.BackwardCFunction)
            is_input = variable is not None and not isinstance(variable, torch.nn.Parameter)
            leaf, is_product = None if variable is None else id(variable), node.name().startswith(_PRODUCTS)
            graph.append(_Node(node._sequence_nr(), leaf, is_known, is_product, is_input))
            waiting.append(node)
        return numbers[node]

    waiting: list[Any] = []
    for root in roots:
        if root.grad_fn is not None:
            number_of(root.grad_fn)
    while waiting:
        node = waiting.pop()
        for below, _ in node.next_functions:
            if below is not None:
                graph[number_of(below)].above.append(numbers[node])
        if len(graph) > MAX_NODES:
            return []
    return graph


def _state(parameter: torch.Tensor) -> tuple[int, float]:
    """By what a parameter is seen to be changed: its version, and on the host its numbers."""
    if parameter.device.type != "cpu":
        return parameter._version, 0.0
    with torch.no_grad():
        return parameter._version, float(parameter.detach().reshape(-1)[:MAX_MARKED].double().sum())


def parameters_of(optimizer: Optimizer) -> list[torch.Tensor]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def optimizers() -> list[Optimizer]:
    """All optimizers of the process, also those that step seldom."""
    return [each for each in gc.get_objects() if Optimizer in type(each).__mro__ and hasattr(each, "param_groups")]
