"""Records the calls of this process on a tape: the same code beside a real run and under a dry run. Needs torch.

[Note: where calls are caught]
Every function of ``torch.distributed``, FSDP2 and DeviceMesh calls a method of ``ProcessGroup`` from Python, whatever
name the user's code bound it to; the methods of that class are wrapped while a recorder is on. Waits are caught at
``Work.wait``, creations at ``_new_process_group_helper``, batches at ``batch_isend_irecv``. Calls that torch makes
below Python (functional collectives, DDP's reducer) do not pass here: a dry run of a recipe has none, which
`fake_world.DryTensors` proves by failing on the first.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import ProcessGroup, Work
from torch.distributed import distributed_c10d

from emberward.events import Body, Group, GroupCreate, Recv, Send
from emberward.sources._attach import attach, detach, identify_now, loaded
from emberward.sources._calls import METHODS, bodies_of
from emberward.sources._groups import GroupTable
from emberward.sources._live import LiveRecorder, live_recorder
from emberward.sources._tape import Call, Tape

__all__ = [
    "MAX_OPEN_WORKS",
    "LiveRecorder",
    "Recorder",
    "attach",
    "detach",
    "identify_now",
    "live_recorder",
    "loaded",
]

MAX_OPEN_WORKS = 100_000
"""Calls that may be under way and not yet waited for; older ones are forgotten, so that a wait for them is unseen."""


class Recorder:
    """Writes what this process does onto `tape` between `recording`'s begin and end. One recorder at a time.

    Groups that were there before are known by their ranks, in the order in which they were made. `before` is called
    with each body before the call is noted and issued; what it raises, the caller of torch gets. Without a tape nothing
    is kept, and `before` is called all the same.
    """

    _active: "Recorder | None" = None

    def __init__(self, tape: Tape | None, *, before: Callable[[Body], None] | None = None) -> None:
        self.tape = tape
        self._before = before
        self._table = GroupTable()
        self._groups: dict[str, Group] = {}
        self._works: dict[int, tuple[Work, Call]] = {}
        self._local = threading.local()
        for handle in list(distributed_c10d._world.pg_map):
            ranks = dist.get_process_group_ranks(handle)
            is_world = handle is dist.group.WORLD
            self._groups[_name_of(handle)] = self._table.made(ranks, label=handle.group_desc, is_world=is_world)

    # -- what the wrappers call --------------------------------------------------------------------------------------

    def group_of(self, handle: ProcessGroup) -> Group:
        """The group behind torch's handle."""
        found = self._groups.get(_name_of(handle))
        if found is None:
            ranks = dist.get_process_group_ranks(handle)
            found = self._groups[_name_of(handle)] = self._table.made(ranks, label=handle.group_desc)
        return found

    def call(self, method: str, original: Callable[..., Any], handle: ProcessGroup, *args: Any, **named: Any) -> Any:
        """Notes the call, makes it, and remembers its work."""
        if getattr(self._local, "is_inside", False):
            return original(handle, *args, **named)
        bodies, is_blocking = bodies_of(method, self.group_of(handle), args, named)
        batch = getattr(self._local, "batch", None)
        made = []
        for body in bodies:
            if batch is not None and isinstance(body, Send | Recv):
                body = dataclasses.replace(body, batch=batch)
            if self._before is not None:
                self._before(body)
            if self.tape is not None:
                made.append(self.tape.call(body, is_blocking=is_blocking))
        self._local.is_inside = True
        try:
            work = original(handle, *args, **named)
        finally:
            self._local.is_inside = False
        if work is not None and made and not is_blocking:
            self._works[id(work)] = (work, made[-1])
            if len(self._works) > MAX_OPEN_WORKS:
                del self._works[next(iter(self._works))]
        return work

    def waited(self, work: Work) -> None:
        """Notes the wait for a work that was noted."""
        found = self._works.pop(id(work), None)
        if found is not None and self.tape is not None:
            self.tape.wait(found[1])

    def created(self, ranks: Sequence[int], *, label: str | None, is_local: bool) -> Group:
        """Notes the creation of a group that every rank of the world takes part in, or its members when `is_local`."""
        group = self._table.made(ranks, label=label)
        body = GroupCreate(group=group, members=group.ranks if is_local else None)
        if self._before is not None:
            self._before(body)
        if self.tape is not None:
            self.tape.call(body, is_blocking=True)
        return group

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Sends and receives made inside are one batch."""
        self._local.batch = 0 if self.tape is None else self.tape.next_batch()
        try:
            yield
        finally:
            self._local.batch = None

    # -- on and off --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Records while open. Raises RuntimeError when another recorder is on."""
        with self.alone() as stack:
            for method in METHODS:
                if hasattr(ProcessGroup, method):
                    replace_while_open(stack, ProcessGroup, method, self._wrapped(method))
            for kind in _work_types():
                for method in ("wait", "synchronize"):
                    if method in vars(kind):
                        replace_while_open(stack, kind, method, self._wrapped_wait(vars(kind)[method]))
            replace_while_open(stack, distributed_c10d, "_new_process_group_helper", self._wrapped_helper())
            replace_while_open(stack, distributed_c10d, "_new_group_with_tag", self._wrapped_new_group())
            batched = self._wrapped_batch(distributed_c10d.batch_isend_irecv)
            replace_while_open(stack, distributed_c10d, "batch_isend_irecv", batched)
            replace_while_open(stack, dist, "batch_isend_irecv", batched)
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[contextlib.ExitStack]:
        """Undoes what is pushed at the end; until then no other recorder can be on. RuntimeError if one is."""
        if Recorder._active is not None:
            raise RuntimeError("a recorder is on already")
        Recorder._active = self
        with contextlib.ExitStack() as stack:
            stack.callback(setattr, Recorder, "_active", None)
            yield stack

    def _wrapped(self, method: str) -> Callable[..., Any]:
        original = getattr(ProcessGroup, method)

        def wrapper(handle: ProcessGroup, *args: Any, **named: Any) -> Any:
            return self.call(method, original, handle, *args, **named)

        return wrapper

    def _wrapped_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(work: Work, *args: Any, **named: Any) -> Any:
            self.waited(work)
            return original(work, *args, **named)

        return wrapper

    def _wrapped_helper(self) -> Callable[..., Any]:
        original = distributed_c10d._new_process_group_helper

        def wrapper(group_size: int, group_rank: int, ranks: Sequence[int], *args: Any, **named: Any) -> Any:
            is_world = not ranks
            members = list(range(group_size)) if is_world else list(ranks)
            if is_world:
                group = self._table.made(members, label="world", is_world=True)
            else:
                is_local = getattr(self._local, "is_local", False)
                group = self.created(members, label=named.get("group_desc"), is_local=is_local)
            made = original(group_size, group_rank, ranks, *args, **named)
            handle = made[0]
            if isinstance(handle, ProcessGroup):
                self._groups[_name_of(handle)] = group
            return made

        return wrapper

    def _wrapped_new_group(self) -> Callable[..., Any]:
        original = distributed_c10d._new_group_with_tag

        def wrapper(*args: Any, **named: Any) -> Any:
            self._local.is_local = bool(named.get("use_local_synchronization", False))
            try:
                return original(*args, **named)
            finally:
                self._local.is_local = False

        return wrapper

    def _wrapped_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **named: Any) -> Any:
            with self.batch():
                return original(*args, **named)

        return wrapper


def _name_of(handle: ProcessGroup) -> str:
    """The name under which torch knows the group. A group written in Python does not carry it."""
    return distributed_c10d._world.pg_names[handle]


def _work_types() -> list[type]:
    """Work and those of torch's kinds of work that have methods of their own (the fake backend's has)."""
    return [kind for kind in vars(_distributed_c10d).values() if isinstance(kind, type) and issubclass(kind, Work)]


def replace_while_open(stack: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Gives `owner` another `name` until `stack` closes, and then the very one that it had."""
    # The class's own entry, not `getattr`'s: pybind11 binds a method by a descriptor that `getattr` unwraps.
    kept = vars(owner).get(name)
    if kept is None:
        stack.callback(delattr, owner, name)
    else:
        stack.callback(setattr, owner, name, kept)
    setattr(owner, name, value)
