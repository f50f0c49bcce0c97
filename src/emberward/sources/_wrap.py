"""Puts the live recorder between torch and its callers. Needs torch.

[Note: what is wrapped]
Methods of ``ProcessGroup`` (see `recorder` [Note: where calls are caught]), ``Work.wait``, the Python functions of
``torch.distributed._functional_collectives`` (DTensor calls them by their module), creation and destruction of groups.
What torch calls below Python (DDP's reducer, compiled graphs, a functional collective that was imported by name before)
does not pass: `_heart` reads torch's own counters and flight recorder for those. The wrappers are put on once and stay;
without a recorder, as in a forked child, they pass everything through. Under torch.compile they fold away.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import ref

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import ProcessGroup, Work
from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d

from emberward.events import CollectiveOp, GroupCreate
from emberward.sources._calls import METHODS
from emberward.sources._device_clock import clock_of
from emberward.sources._ends import DeviceEnds, is_device_backend, wrap_host_waits
from emberward.sources._issue import SHORT, note_sums, short_method, short_wait
from emberward.sources._live import CURRENT, KnownGroup, LiveRecorder
from emberward.sources._marks import note_exit
from emberward.sources._picks import storage_of
from emberward.sources._store import wrap_stores
from emberward.sources._values import is_gone
from emberward.sources.ring._format import (
    DTYPES,
    OP_BARRIER,
    OP_OF_COLLECTIVE,
    OP_RECV,
    OP_SEND,
    REDUCE_OPS,
    CallFlag,
)

MAX_QUIET_S = 1.0
"""How long the destruction of a group waits for a snapshot at its counters from beside, which takes microseconds."""

_DTYPE_CODES = {
    getattr(torch, name): code for code, name in enumerate(DTYPES) if name is not None and hasattr(torch, name)
}
_REDUCE_CODES = {
    getattr(_distributed_c10d.ReduceOp.RedOpType, op.name): code
    for code, op in enumerate(REDUCE_OPS)
    if op is not None and hasattr(_distributed_c10d.ReduceOp.RedOpType, op.name)
}
_REDUCE_NAMES = {op.value: code for code, op in enumerate(REDUCE_OPS) if op is not None}

_OPS: Mapping[str, int] = {
    "allreduce": OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE],
    "all_reduce": OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE],
    "broadcast": OP_OF_COLLECTIVE[CollectiveOp.BROADCAST],
    "reduce": OP_OF_COLLECTIVE[CollectiveOp.REDUCE],
    "allgather": OP_OF_COLLECTIVE[CollectiveOp.ALL_GATHER],
    "all_gather": OP_OF_COLLECTIVE[CollectiveOp.ALL_GATHER],
    "reduce_scatter": OP_OF_COLLECTIVE[CollectiveOp.REDUCE_SCATTER],
    "gather": OP_OF_COLLECTIVE[CollectiveOp.GATHER],
    "scatter": OP_OF_COLLECTIVE[CollectiveOp.SCATTER],
    "alltoall": OP_OF_COLLECTIVE[CollectiveOp.ALL_TO_ALL],
    "all_to_all": OP_OF_COLLECTIVE[CollectiveOp.ALL_TO_ALL],
    "barrier": OP_BARRIER,
    "monitored_barrier": OP_BARRIER,
    "send": OP_SEND,
    "recv": OP_RECV,
}
"""The ring's code for a method or function, by the beginning of its name."""

_IN_FIRST = {"allreduce", "allreduce_coalesced", "broadcast", "reduce", "send", "recv"}
"""Methods whose first argument is what the rank puts in; the others have it second, after what they get."""


def op_of(name: str) -> int:
    """The ring's code of a method of ProcessGroup or of a functional collective."""
    bare = name.removeprefix("_")
    return next(_OPS[start] for start in sorted(_OPS, key=len, reverse=True) if bare.startswith(start))


def wrap_everything(live: LiveRecorder) -> None:
    """Puts the wrappers on. Called once in a process, with torch loaded. See [Note: what is wrapped].

    The short ways are those of `live`; with a later recorder of a forked child they go the long way.
    """
    for method in METHODS:
        if hasattr(ProcessGroup, method):
            original = getattr(ProcessGroup, method)
            setattr(ProcessGroup, method, recorded_method(live, method, original))
    for kind in SHORT.values():
        if "reduceOp" in vars(kind):
            note_sums(kind)
    for kind in vars(_distributed_c10d).values():
        if isinstance(kind, type) and issubclass(kind, Work):
            for name in ("wait", "synchronize"):
                if name in vars(kind):
                    original = vars(kind)[name]
                    setattr(kind, name, short_wait(live, original, _wrapped_wait(original)))
    for name, found in list(vars(functional).items()):
        bare = name.removeprefix("_").removesuffix("_autograd")
        if callable(found) and bare in _FUNCTIONAL:
            setattr(functional, name, _wrapped_functional(bare, found))
    functional.wait_tensor = _wrapped_wait_tensor(functional.wait_tensor)
    distributed_c10d._new_process_group_helper = _wrapped_helper(distributed_c10d._new_process_group_helper)
    distributed_c10d._new_group_with_tag = _wrapped_new_group(distributed_c10d._new_group_with_tag)
    wrap_stores(live, _distributed_c10d.Store, _distributed_c10d.PrefixStore, lambda: CURRENT.live)
    for owner, name, wrap in (
        (distributed_c10d, "batch_isend_irecv", _wrapped_batch),
        (distributed_c10d, "destroy_process_group", _wrapped_destroy),
    ):
        wrapped = wrap(getattr(owner, name))
        setattr(owner, name, wrapped)
        setattr(dist, name, wrapped)


# -- methods of ProcessGroup -------------------------------------------------------------------------------------------


def recorded_method(live: LiveRecorder, method: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, a method of ProcessGroup, recorded: by the short way of `live` where it has one."""
    long_way = _wrapped_method(method, original)
    if method not in SHORT:
        return long_way
    return short_method(
        live,
        method,
        original,
        long_way,
        op=op_of(method),
        sized=_sized,
        learn=known_group,
        dtypes=_DTYPE_CODES,
        reduce_code=_reduce_code,
    )


def _wrapped_method(method: str, original: Callable[..., Any]) -> Callable[..., Any]:
    op = op_of(method)
    is_transfer = op in (OP_SEND, OP_RECV)
    position = METHODS[method][1]
    given_at = 0 if method in _IN_FIRST else 1
    is_barrier = op == OP_BARRIER
    has_tensors = not is_barrier
    has_two = given_at == 1 and has_tensors
    has_reduce = op in (_OPS["allreduce"], _OPS["reduce"], _OPS["reduce_scatter"])
    has_root = op in (_OPS["broadcast"], _OPS["reduce"], _OPS["gather"], _OPS["scatter"])
    is_always_sync = method == "monitored_barrier"

    dtypes = _DTYPE_CODES

    @functools.wraps(original)
    def call(handle: Any, *args: Any, **named: Any) -> Any:
        live = CURRENT.live
        if live is None:
            return original(handle, *args, **named)
        if live.asks is not None:
            live.asks.by_method[method](handle, args, named)
        try:
            known = live.by_handle.get(id(handle)) or known_group(live, handle)
            options = named.get("opts") if named else None
            if options is None and position is not None and len(args) > position:
                options = args[position]
            is_sync = is_always_sync or (options is not None and getattr(options, "asyncOp", True) is False)
            numel = out_numel = peer = tag = batch = -1
            dtype = reduce_op = 0
            ends_at_wait = known.ends_at_wait
            if has_tensors:
                first, numel = _sized(args[given_at])
                if has_two:
                    other, out = _sized(args[0])
                    first = other if first is None else first
                    out_numel = out if out != numel else -1
                if first is not None:
                    dtype = dtypes.get(first.dtype, 0)
                    ends_at_wait = ends_at_wait or (known.ends_on_cpu and first.is_cpu)
            if has_reduce:
                reduce_op = _reduce_code(options)
            if has_root:
                peer = known.group.ranks[options if isinstance(options, int) else getattr(options, "rootRank", 0)]
            elif is_transfer:
                peer = known.group.ranks[args[1]]
                tag = args[2] if len(args) > 2 else 0
                batch = live.local.batch
            number = live.writer.call(
                op,
                known.number,
                numel,
                dtype,
                live.sites.here(),
                CallFlag.BLOCKING if is_sync and (ends_at_wait or is_barrier) else 0,
                peer,
                out_numel,
                reduce_op,
                0,
                tag,
                batch,
            )
        except Exception as error:  # noqa: BLE001 (an unknown way to call: the call is made, and is not recorded)
            live.problem(f"{method} not recorded", error)
            return original(handle, *args, **named)
        begin = None if ends_at_wait or live.ends is None else live.ends.mark()
        try:
            work = original(handle, *args, **named)
        except BaseException:
            live.writer.raised(number)
            raise
        try:
            if work is None:
                live.writer.done(number, known.number, is_transfer=is_transfer)
            elif is_sync and ends_at_wait and not is_transfer:
                live.sync[work] = number, known.number
            else:
                if not ends_at_wait and live.ends is not None:
                    live.ends.issued(number, known, handle, begin, is_transfer=is_transfer)
                live.await_work(
                    work, (ref(work), number, known.number, is_transfer, is_sync, ends_at_wait, True, is_barrier)
                )
        except Exception as error:  # noqa: BLE001 (a work of a kind that cannot be referred to: its end is not recorded)
            live.problem(f"the end of {method} not recorded", error)
        return work

    return call


_SUM = _distributed_c10d.ReduceOp.SUM


def _reduce_code(options: Any) -> int:
    """The ring's code of a reduce op. Asked by `==` first: pybind11's enums take a microsecond to hash."""
    found = getattr(options, "reduceOp", options)
    if found is None or found == _SUM:
        return 1
    return _REDUCE_CODES.get(getattr(found, "op", found), 1)


def _sized(value: Any) -> tuple[Tensor | None, int]:
    """The first tensor of an argument that may be one, a list, or a list of lists, and the elements of all of them."""
    if type(value) is list and len(value) == 1:
        value = value[0]
    if isinstance(value, Tensor):
        return value, value.numel()
    first, total = None, 0
    for item in value or ():
        tensor, numel = _sized(item)
        first = tensor if first is None else first
        total += numel
    return first, total


def _wrapped_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(work: Any, *args: Any, **named: Any) -> Any:
        live = CURRENT.live
        found = None if live is None else live.waiting(work, has_limit=bool(args or named))
        if live is None or found is None:
            return original(work, *args, **named)
        try:
            result = original(work, *args, **named)
        except BaseException:
            live.failed(*found)
            raise
        live.waited(*found)
        return result

    return wait


# -- functional collectives --------------------------------------------------------------------------------------------

_FUNCTIONAL = {
    "all_reduce": 2,
    "broadcast": 2,
    "all_gather_single": 2,
    "all_gather_tensor": 2,
    "reduce_scatter_single": 3,
    "reduce_scatter_tensor": 3,
    "all_reduce_coalesced": 2,
    "all_gather_single_coalesced": 1,
    "all_gather_into_tensor_coalesced": 1,
    "reduce_scatter_single_coalesced": 3,
    "reduce_scatter_tensor_coalesced": 3,
    "all_to_all_single": 3,
}
"""Functions of ``torch/distributed/_functional_collectives.py`` (2.11 to 2.13) and where their group stands."""


def _wrapped_functional(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    op = op_of(name)
    group_at = _FUNCTIONAL[name]

    def note(live: LiveRecorder, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[int, KnownGroup, bool]:
        group = named["group"] if "group" in named else args[group_at]
        tag = named.get("tag", args[group_at + 1] if len(args) > group_at + 1 else "")
        known = live.of_name(functional._resolve_group_name(group, tag))
        if known is None:
            raise LookupError("a group that was not seen being made")
        first, numel = _sized(args[0] if args else named["self"])
        peer, reduce_op = -1, 0
        if name == "broadcast":
            peer = args[1] if len(args) > 1 else named["src"]
        elif "reduce" in name:
            text = args[1] if len(args) > 1 else named["reduceOp"]
            reduce_op = _REDUCE_NAMES.get(str(text).lower(), 1)
        dtype = 0 if first is None else _DTYPE_CODES.get(first.dtype, 0)
        site = live.sites.here()
        number = live.writer.call(op, known.number, numel, dtype, site, peer=peer, reduce_op=reduce_op)
        ends = known.ends_at_wait or (known.ends_on_cpu and first is not None and first.is_cpu)
        return number, known, ends

    @functools.wraps(original)
    def call(*args: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **named)
        live = CURRENT.live
        if live is None or live.local.is_functional:
            return original(*args, **named)
        live.local.is_functional = True
        try:
            pending = begin = None
            try:
                pending = note(live, args, named)
                begin = None if pending[2] or live.ends is None else live.ends.mark()
            except Exception as error:  # noqa: BLE001 (an unknown way to call: the call is made, and is not recorded)
                live.problem(f"functional {name} not recorded", error)
            result = original(*args, **named)
        finally:
            live.local.is_functional = False
        if pending is not None:
            # Of the tensors of a coalesced call the last one stands for all: they are one call.
            tensor = result[-1] if type(result) in (list, tuple) and result else result
            if isinstance(tensor, Tensor):
                number, known, ends_at_wait = pending
                if not ends_at_wait and live.ends is not None:
                    resolve: Any = _distributed_c10d._resolve_process_group
                    live.ends.issued(number, known, resolve(known.name), begin, is_transfer=False)
                elem = getattr(tensor, "elem", tensor)
                live.await_result(storage_of(elem), is_gone(elem), number, known.number, ends_at_wait=ends_at_wait)
        return result

    return call


def _wrapped_wait_tensor(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait_tensor(tensor: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(tensor)
        live = CURRENT.live
        found = None if live is None else live.waiting_for(storage_of(getattr(tensor, "elem", tensor)))
        if live is None or found is None:
            return original(tensor)
        try:
            result = original(tensor)
        except BaseException:
            live.failed(*found)
            raise
        live.waited(*found)
        return result

    return wait_tensor


# -- groups ------------------------------------------------------------------------------------------------------------


def known_group(live: LiveRecorder, handle: Any) -> KnownGroup:
    """A group that was made before the recorder came."""
    name = distributed_c10d._world.pg_names.get(handle) or handle.group_name
    known = live.of_name(name)
    if known is None:
        ranks = dist.get_process_group_ranks(handle)
        is_world = handle is dist.group.WORLD
        known = live.made(ranks, label=handle.group_desc, is_world=is_world, is_member=True, ends_at_wait=True)
        _learn_backends(live, handle, known)
    live.know(handle, name, known)
    return known


def _learn_backends(live: LiveRecorder, handle: Any, known: KnownGroup) -> None:
    """Says in `known` whether a wait returns only when the call is done: not so where a device does the work."""
    # "cuda:nccl,cpu:gloo": the backend of each kind of device.
    backends = str(distributed_c10d._world.pg_backend_config.get(handle, dist.get_backend(handle))).split(",")
    known.ends_at_wait = not any(map(is_device_backend, backends))
    known.ends_on_cpu = not any(each.startswith("cpu:") and is_device_backend(each) for each in backends)
    known.is_nccl = any(each.rpartition(":")[2] == "nccl" for each in backends)
    if not known.ends_at_wait:
        wrap_host_waits(is_on_cpu=not known.ends_on_cpu)
        if live.ends is None:
            live.ends = DeviceEnds(live, clock_of(tuple(each.rpartition(":")[2] for each in backends)))


def _wrapped_helper(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def helper(group_size: int, group_rank: int, ranks: Sequence[int], *args: Any, **named: Any) -> Any:
        live = CURRENT.live
        if live is None:
            return original(group_size, group_rank, ranks, *args, **named)
        try:
            known, number = _note_creation(live, group_size, ranks, named.get("group_desc"))
        except Exception as error:  # noqa: BLE001 (an unknown way to make a group: it is made, and is not known)
            live.problem("creation of a group not recorded", error)
            return original(group_size, group_rank, ranks, *args, **named)
        if live.before_creation is not None and ranks:
            live.before_creation(
                GroupCreate(group=known.group, members=known.group.ranks if live.local.is_local else None)
            )
        try:
            made = original(group_size, group_rank, ranks, *args, **named)
        except BaseException:
            if number is not None:
                live.writer.raised(number)
            raise
        if number is not None:
            live.writer.done(number)
        handle = made[0]
        if isinstance(handle, ProcessGroup):
            _learn_backends(live, handle, known)
            live.know(handle, distributed_c10d._world.pg_names.get(handle, ""), known)
        return made

    return helper


def _note_creation(
    live: LiveRecorder, group_size: int, ranks: Sequence[int], label: str | None
) -> tuple[KnownGroup, int | None]:
    """The group that is about to be made, and its call's number; None for the world's, which every rank makes first."""
    is_world = not ranks
    members = list(range(group_size)) if is_world else list(ranks)
    known = live.made(
        members,
        label="world" if is_world else label,
        is_world=is_world,
        is_member=is_world or _own_rank() in members,
        ends_at_wait=False,
    )
    return known, None if is_world else live.creating(known, is_local=live.local.is_local)


def _own_rank() -> int | None:
    return dist.get_rank() if dist.is_initialized() else None


def _wrapped_new_group(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def new_group(*args: Any, **named: Any) -> Any:
        live = CURRENT.live
        if live is None:
            return original(*args, **named)
        live.local.is_local = bool(named.get("use_local_synchronization", False))
        try:
            return original(*args, **named)
        finally:
            live.local.is_local = False

    return new_group


def _wrapped_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def batch(*args: Any, **named: Any) -> Any:
        live = CURRENT.live
        if live is None or torch.compiler.is_compiling():
            return original(*args, **named)
        live.local.batch = live.next_batch()
        try:
            return original(*args, **named)
        finally:
            live.local.batch = -1

    return batch


def _wrapped_destroy(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def destroy(*args: Any, **named: Any) -> Any:
        live = CURRENT.live
        if live is None:
            return original(*args, **named)
        if (args[0] if args else named.get("group")) is None:
            note_exit()
        is_quiet = live.quiet.acquire(timeout=MAX_QUIET_S)
        try:
            live.count_last()
            return original(*args, **named)
        finally:
            world = distributed_c10d._world
            live.forget(list(world.pg_map), list(world.pg_names.values()))
            if is_quiet:
                live.quiet.release()

    return destroy
