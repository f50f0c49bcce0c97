"""Asks a guard about each call of this process before torch issues it, for a few microseconds a call. Needs torch.

[Note: a call's signature]
To say what a call is, in the vocabulary's words, costs ten times what the comparison costs. But the calls of a training
repeat: a call's method, group, shapes, types and options are looked up in a table, and only a signature that never came
before is put into words. What is not in the signature (addresses, values, whether the call is asynchronous) is not
compared either.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup
from torch.distributed import distributed_c10d

from emberward.sources._calls import METHODS, bodies_of
from emberward.sources._certificate import call_key
from emberward.sources._guard import Guard
from emberward.sources.recorder import Recorder, replace_while_open

MAX_SIGNATURES = 10_000
"""Signatures that are remembered; then all are put into words anew."""


class CallWatch(Recorder):
    """Tells `guard` of every call and every group between `recording`'s begin and end; keeps nothing of them."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(None, before=guard.before)
        self._guard = guard
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Watches while open. May lie around another recorder. Raises RuntimeError when one of its kind is on."""
        with self.alone() as stack:
            for method in METHODS:
                if hasattr(ProcessGroup, method):
                    replace_while_open(stack, ProcessGroup, method, self._asked(method))
            replace_while_open(stack, distributed_c10d, "_new_process_group_helper", self._wrapped_helper())
            replace_while_open(stack, distributed_c10d, "_new_group_with_tag", self._wrapped_new_group())
            yield

    def _asked(self, method: str) -> Callable[..., Any]:
        original = getattr(ProcessGroup, method)
        position = METHODS[method][1]
        bare = method.removeprefix("_")
        has_reduce = bare.startswith(("allreduce", "reduce"))
        has_root = bare.startswith(("broadcast", "gather", "scatter")) or bare == "reduce"
        known, issue = self._known, self._guard.issue

        def ask(handle: ProcessGroup, *args: Any, **named: Any) -> Any:
            signature: tuple[Any, ...]
            if named:
                for number in self._numbers(method, handle, args, named):
                    issue(number)
                return original(handle, *args, **named)
            if position is None:
                signature = (method, handle, *map(_sign, args))
            else:
                options = args[position] if len(args) > position else None
                signature = (
                    method,
                    handle,
                    _option(options, "reduceOp") if has_reduce else None,
                    _option(options, "rootRank") if has_root else None,
                    *map(_sign, args[:position]),
                )
            numbers = known.get(signature)
            if numbers is None:
                if len(known) >= MAX_SIGNATURES:
                    known.clear()
                numbers = known[signature] = self._numbers(method, handle, args, named)
            for number in numbers:
                issue(number)
            return original(handle, *args, **named)

        return ask

    def _numbers(self, method: str, handle: ProcessGroup, args: Any, named: Any) -> tuple[int, ...]:
        """The guard's numbers for a call, put into words."""
        bodies, _ = bodies_of(method, self.group_of(handle), args, named)
        keys = [key for body in bodies if (key := call_key(body)) is not None]
        return tuple(self._guard.number_of(key) for key in keys)


def _sign(value: Any) -> Any:
    """What of an argument is compared: shape and type of each tensor, else the value itself."""
    if type(value) is list:
        if len(value) == 1:
            value = value[0]
            if isinstance(value, Tensor):
                return value.shape, value.dtype
        return tuple(map(_sign, value)) if isinstance(value, list) else _sign(value)
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    return value if isinstance(value, int) else str(type(value))


def _option(options: Any, name: str) -> Any:
    """The reduction or the root, whichever way it was given."""
    found = getattr(options, name, options)
    # torch's enum compares slowly (0.3 us); its number does not.
    return found if found is None or isinstance(found, int) else int(found.op)
