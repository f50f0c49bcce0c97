"""Asks a guard about each call of this process before torch issues it, for a few microseconds a call. Needs torch.

[Note: a call's signature]
To say what a call is, in the vocabulary's words, costs ten times what the comparison costs. But the calls of a training
repeat: a call's method, group, shapes, types and options are looked up in a table, and only a signature that never came
before is put into words. What is not in the signature (addresses, values, whether the call is asynchronous) is not
compared either.

[Note: one wrapper]
In a process with a live recorder its wrappers are on already: they ask the watch about each call before they write it
down, and no second wrapper is put around them. Groups are then those that the recorder knows.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup
from torch.distributed import distributed_c10d

from emberward.events import Group
from emberward.sources._calls import METHODS, bodies_of
from emberward.sources._certificate import call_key
from emberward.sources._guard import Guard
from emberward.sources._live import Ask, Asks, LiveRecorder, live_recorder
from emberward.sources._wrap import known_group
from emberward.sources.recorder import Recorder, replace_while_open

MAX_SIGNATURES = 10_000
"""Signatures that are remembered; then all are put into words anew."""


class CallWatch(Recorder):
    """Tells `guard` of every call and every group between `recording`'s begin and end; keeps nothing of them."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(None, before=guard.before)
        self._guard = guard
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self._live: LiveRecorder | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Watches while open: by the live recorder's wrappers where there is one, else by its own.

        May lie around another recorder. Raises RuntimeError when one of its kind is on.
        """
        self._live = live = live_recorder()
        with self.alone() as stack:
            if live is not None:
                by_method = {method: self._ask(method) for method in METHODS}
                live.asks = Asks(by_method=by_method, known=self._known, words=self._words, issue=self._guard.issue)
                live.before_creation = self._guard.before
                stack.callback(setattr, live, "asks", None)
                stack.callback(setattr, live, "before_creation", None)
                yield
                return
            for method in METHODS:
                if hasattr(ProcessGroup, method):
                    replace_while_open(stack, ProcessGroup, method, self._asked(method))
            replace_while_open(stack, distributed_c10d, "_new_process_group_helper", self._wrapped_helper())
            replace_while_open(stack, distributed_c10d, "_new_group_with_tag", self._wrapped_new_group())
            yield

    def group_of(self, handle: ProcessGroup) -> Group:
        """The group behind torch's handle."""
        live = self._live
        if live is None:
            return super().group_of(handle)
        return (live.by_handle.get(id(handle)) or known_group(live, handle)).group

    def _asked(self, method: str) -> Callable[..., Any]:
        original = getattr(ProcessGroup, method)
        ask = self._ask(method)

        def asked(handle: ProcessGroup, *args: Any, **named: Any) -> Any:
            ask(handle, args, named)
            return original(handle, *args, **named)

        return asked

    def _ask(self, method: str) -> Ask:
        position = METHODS[method][1]
        bare = method.removeprefix("_")
        has_reduce = bare.startswith(("allreduce", "reduce"))
        has_root = bare.startswith(("broadcast", "gather", "scatter")) or bare == "reduce"
        known, issue = self._known, self._guard.issue

        def ask(handle: ProcessGroup, args: Sequence[Any], named: Mapping[str, Any]) -> None:
            signature: tuple[Any, ...]
            if named:
                for number in self._numbers(method, handle, args, named):
                    issue(number)
                return
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

        return ask

    def _words(self, method: str, handle: ProcessGroup, args: Sequence[Any]) -> tuple[int, ...]:
        if len(self._known) >= MAX_SIGNATURES:
            self._known.clear()
        return self._numbers(method, handle, args, {})

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
