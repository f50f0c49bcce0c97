"""What a task of a lane will give: a stand-in for its value, which waits for it at the first use.

[Note: stand-ins]
A result may be used where its value may be: torch's functions take it (``__torch_function__``, torch 2.13
torch/overrides.py), operators and attributes go to the value. The first such use waits for this one task and for
nothing else. As an argument of a task of another lane it is waited for there, not by whoever submits. It is no tensor
for ``isinstance``: ``result()`` gives that.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Module

from emberward.lanes._errors import site_of
from emberward.lanes._task import Task

MAX_NESTING = 4
"""Lists, tuples and dictionaries of arguments that are looked into, one inside the other."""


class Out:
    """Marks an argument that the task may write into: ``lane.submit(f, Out(tensor))``. The task gets the tensor."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Result:
    """The value of one task. See [Note: stand-ins]. Made by `Lane.submit`."""

    __slots__ = ("__weakref__", "_task")

    def __init__(self, task: Task) -> None:
        self._task = task

    def done(self) -> bool:
        """Whether the task has ended on its host thread. Does not block."""
        return self._task.is_done

    def result(self, timeout_s: float | None = None) -> Any:
        """The task's value, or raises what the task raised. Blocks; TimeoutError after `timeout_s`.

        On a device the current stream waits for the task's work there; the host does not. Raises W104 where the wait
        could never end: from a task or a block of the same lane, or of one for which the task waits.
        """
        return self._task.outcome(timeout_s)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """What the task raised, None if it did not. Blocks; TimeoutError after `timeout_s`."""
        self._task.wait(timeout_s)
        self._task.is_taken = True
        return self._task.error

    def __del__(self) -> None:
        self._task.abandon()

    # -- a stand-in for the value ------------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        return func(*(settled(arg) for arg in args), **{name: settled(arg) for name, arg in (kwargs or {}).items()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.result(), name)

    def __repr__(self) -> str:
        task = self._task
        state = "waiting" if not task.is_done else "done" if task.error is None else "failed"
        return f"<result of lane {task.lane.name}, {state}, submitted at {site_of(task.stack)}>"

    def __str__(self) -> str:
        return str(self.result())

    def __format__(self, spec: str) -> str:
        return format(self.result(), spec)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result())

    def __len__(self) -> int:
        return len(self.result())

    def __contains__(self, item: object) -> bool:
        return item in self.result()

    def __bool__(self) -> bool:
        return bool(self.result())

    def __getitem__(self, key: Any) -> Any:
        return self.result()[settled(key)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.result()(*args, **kwargs)

    __hash__ = object.__hash__


def _unary(function: Callable[[Any], Any]) -> Callable[[Result], Any]:
    return lambda self: function(self.result())


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Result, Any], Any]:
    return lambda self, other: function(self.result(), settled(other))


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Result, Any], Any]:
    return lambda self, other: function(settled(other), self.result())


for _name in ("neg", "pos", "abs", "invert", "index"):
    setattr(Result, f"__{_name}__", _unary(getattr(operator, _name)))
for _kind in (int, float, complex):
    setattr(Result, f"__{_kind.__name__}__", _unary(_kind))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Result, f"__{_name}__", _binary(getattr(operator, _name)))
_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor")
for _name in _OPERATORS:
    setattr(Result, f"__{_name.rstrip('_')}__", _binary(getattr(operator, _name)))
    setattr(Result, f"__r{_name.rstrip('_')}__", _reflected(getattr(operator, _name)))


def settled(value: Any, nesting: int = 0) -> Any:
    """`value` with each result in it replaced by its value, and each `Out` by its tensor. Blocks for results."""
    if isinstance(value, Result):
        return value.result()
    if isinstance(value, Out):
        return value.tensor
    if nesting < MAX_NESTING:
        if type(value) in (list, tuple):
            return type(value)(settled(item, nesting + 1) for item in value)
        if type(value) is dict:
            return {key: settled(item, nesting + 1) for key, item in value.items()}
    return value


def tensors_of(values: Sequence[Any], found: list[Tensor], nesting: int = 0) -> bool:
    """Adds the tensors among `values` that a task may only read, of modules their parameters.

    Gives whether there are results or `Out`s to be settled before the task begins.
    """
    needs_settling = False
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, Result | Out):
            needs_settling = True
        elif isinstance(value, Module):
            found.extend(value.parameters())
        elif nesting < MAX_NESTING and type(value) in (list, tuple, dict):
            inner = list(value.values()) if type(value) is dict else value
            needs_settling = tensors_of(inner, found, nesting + 1) or needs_settling
    return needs_settling
