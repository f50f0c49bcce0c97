"""The process group of an examined rank: records each call, then moves real values through the lock-step server.
Needs torch.

torch calls these methods from Python, and from C++ for functional collectives and DDP (torch 2.13, PyProcessGroup and
PyWork in torch/csrc/distributed/c10d/init.cpp).
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import ProcessGroup, Work
from torch.distributed import distributed_c10d

from emberward.events import Barrier, Body, Collective, Group, Recv, ReduceOp, Send, expects, gives, is_split
from emberward.sources._calls import METHODS, bodies_of, tensors_of
from emberward.sources._tape import Tape
from emberward.sources.recorder import Recorder
from emberward.sources.script._backend import require_accepted
from emberward.sources.script._guard import RefusedError
from emberward.sources.script._link import Link

BACKEND = "emberward"


class LockStepWork(Work):
    """A call under way."""

    def __init__(self, group: "LockStepGroup", number: int, outputs: list[Tensor]) -> None:
        super().__init__()
        self._group = group
        self._number = number
        self._outputs = outputs

    def wait(self, timeout: Any = None) -> bool:
        """Blocks until the values are there."""
        del timeout
        self._group.recorder.waited(self)
        self._group.link.wait(self._number)
        return True

    def synchronize(self) -> None:
        """As `wait`."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the values are there."""
        return self._group.link.is_done(self._number)

    def is_success(self) -> bool:
        """True: a call that fails ends the examination."""
        return True

    def exception(self) -> None:
        """None: a call that fails ends the examination."""

    def result(self) -> list[Tensor]:
        """The outputs."""
        return self._outputs

    def get_future(self) -> Any:
        """A completed future of the outputs; DDP's reducer asks for it and waits at the end of the backward."""
        self._group.link.wait(self._number)
        self._group.waited_by_backward.append(self)
        future: Any = torch.futures.Future()
        future.set_result(self._outputs)
        return future


class LockStepGroup(ProcessGroup):
    """A group whose calls go through the lock-step server."""

    link: Link
    recorder: Recorder
    tape: Tape
    waited_by_backward: list[LockStepWork]
    """DDP's calls of the backward under way; shared by all groups of the rank."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]  # the stub lacks this overload
        self._own_rank = rank
        self._own_size = size

    def getBackendName(self) -> str:
        """Torch asks for it."""
        return BACKEND

    @property
    def group_name(self) -> Any:
        """The name under which torch knows the group."""
        return distributed_c10d._world.pg_names[self]

    def size(self) -> int:
        """Number of members."""
        return self._own_size

    def rank(self) -> int:
        """This rank in the group."""
        return self._own_rank

    def __repr__(self) -> str:
        return f"LockStepGroup(rank {self._own_rank} of {self._own_size})"


def _method(name: str) -> Callable[..., Any]:
    def call(self: LockStepGroup, *arguments: Any, **named: Any) -> Any:
        return self.recorder.call(name, _exchange, self, *arguments, **{**named, "_method": name})

    call.__name__ = name
    return call


def _exchange(self: LockStepGroup, *arguments: Any, _method: str, **named: Any) -> LockStepWork:
    """Makes one call of torch's method: sends this rank's part and says what to do with the others'."""
    group = self.recorder.group_of(self)
    bodies, _ = bodies_of(_method, group, arguments, named)
    require_accepted(_method, bodies[0], arguments, transport=self.tape.transport)
    outputs, finish, data = _plan(bodies, _method, group, arguments)
    number = -1
    for body in bodies:
        match body:
            case Send(peer=peer, tag=tag):
                own = group.ranks[self._own_rank]
                number = self.link.start("send", ("p2p", _key(group), own, peer, tag), data, finish=finish)
            case Recv(peer=peer, tag=tag):
                own = group.ranks[self._own_rank]
                number = self.link.start("recv", ("p2p", _key(group), peer, own, tag), finish=finish)
            case _:
                own = group.ranks[self._own_rank]
                sizes = (gives(body, own), expects(body, own)) if isinstance(body, Collective) else (None, None)
                number = self.link.start("meet", _key(group), group.ranks, _sign(body), sizes, data, finish=finish)
    return LockStepWork(self, number, outputs)


def _key(group: Group) -> Hashable:
    return group.ranks, group.index


def _sign(body: Body) -> Hashable:
    """What must agree between calls that meet; where parts may differ, their sizes are compared pair by pair."""
    if not isinstance(body, Collective):
        return type(body).__name__
    return body.op.value, body.dtype, None if is_split(body) else body.numel, body.root, body.reduce_op, body.parts


def _bits(tensor: Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _fill(target: Tensor, bits: bytes | None) -> None:
    if bits:
        values = torch.frombuffer(bytearray(bits), dtype=target.dtype)
        if values.numel() == target.numel():
            target.detach().copy_(values.view(target.shape))


def _reduced(like: Tensor, parts: Sequence[bytes], op: ReduceOp) -> Tensor:
    tensors = [torch.frombuffer(bytearray(part), dtype=like.dtype) for part in parts]
    total = tensors[0].clone()
    for other in tensors[1:]:
        match op:
            case ReduceOp.MIN:
                total = torch.minimum(total, other)
            case ReduceOp.MAX:
                total = torch.maximum(total, other)
            case ReduceOp.PRODUCT:
                total = total * other
            case ReduceOp.BAND:
                total = total & other
            case ReduceOp.BOR:
                total = total | other
            case ReduceOp.BXOR:
                total = total ^ other
            case _:
                total = total + other
    return total / len(tensors) if op is ReduceOp.AVG else total


Plan = tuple[list[Tensor], Callable[[Sequence[Any]], None], Any]
"""(outputs, what to do with the parts, this rank's part for the lock-step server)."""


def _plan(bodies: Sequence[Body], method: str, group: Group, arguments: Sequence[Any]) -> Plan:
    """What one call takes and gives. Parts come in group order."""
    body = bodies[0]
    if isinstance(body, Barrier):
        return [], _nothing, None
    first = tensors_of(arguments[0])
    if isinstance(body, Send):
        return first, _nothing, [_bits(tensor) for tensor in first]
    if isinstance(body, Recv):
        return first, lambda parts: _fill_all(first, parts[0]), None
    assert isinstance(body, Collective), f"unknown call {body}"
    root = None if body.root is None else group.ranks.index(body.root)
    size = len(group.ranks)
    own = dist.get_rank() == body.root
    data: Any
    match body.op.value:
        case "all_reduce" | "reduce":
            return first, _reducing(first, body, is_kept=root is None or own), ("all", [_bits(t) for t in first])
        case "broadcast":
            data = ("all", [_bits(t) for t in first]) if own else None
            return first, lambda parts: _fill_all(first, parts[root or 0]), data
    given = tensors_of(arguments[1])
    match body.op.value:
        case "all_gather":
            is_by_member = method == "allgather_coalesced"  # a list of tensors for each member, not the other way round
            slots = list(arguments[0]) if is_by_member else _slots(arguments[0], given, size)
            return first, lambda parts: _fill_slots(slots, parts), ("all", [_bits(t) for t in given])
        case "gather":
            slots = [[tensor] for tensor in first]
            return first, lambda parts: _fill_slots(slots, parts) if own else None, ("all", [_bits(t) for t in given])
        case "scatter":
            data = ("each", [[_bits(tensor)] for tensor in given]) if own else None
            return first, lambda parts: _fill_all(first, parts[root or 0]), data
        case "reduce_scatter":
            pieces = _slots(arguments[1], first, size)
            data = ("each", [[_bits(t) for t in slot] for slot in pieces])
            return first, _reducing(first, body, is_kept=True), data
        case _:
            return _all_to_all(method, arguments, first, given, size)


def _all_to_all(method: str, arguments: Sequence[Any], first: list[Tensor], given: list[Tensor], size: int) -> Plan:
    if method != "alltoall":
        outs, ins = list(arguments[2] or []), list(arguments[3] or [])
        first = list(torch.split(first[0], outs)) if outs else list(first[0].chunk(size))
        given = list(torch.split(given[0], ins)) if ins else list(given[0].chunk(size))
    slots = [[tensor] for tensor in first]
    return first, lambda parts: _fill_slots(slots, parts), ("each", [[_bits(tensor)] for tensor in given])


def _slots(whole: Any, parts: Sequence[Tensor], size: int) -> list[list[Tensor]]:
    """For each member of the group the tensors that are its own in `whole`: a flat tensor, a list, or lists of one."""
    if isinstance(whole, Tensor):
        return [[chunk] for chunk in whole.detach().view(-1).chunk(size)]
    if whole and isinstance(whole[0], Tensor):
        if len(whole) == size * len(parts):
            return [list(whole[member::size]) for member in range(size)] if len(parts) > 1 else [[t] for t in whole]
        # The coalesced flat forms: one flat tensor for each part.
        chunks = [tensor.detach().view(-1).chunk(size) for tensor in whole]
        return [[chunk[member] for chunk in chunks] for member in range(size)]
    return [[row[member] for row in whole] for member in range(size)]


def _reducing(targets: Sequence[Tensor], body: Collective, *, is_kept: bool) -> Callable[[Sequence[Any]], None]:
    op = body.reduce_op or ReduceOp.SUM

    def finish(parts: Sequence[Any]) -> None:
        if is_kept:
            for index, target in enumerate(targets):
                total = _reduced(target, [part[index] for part in parts], op)
                target.detach().copy_(total.to(target.dtype).view(target.shape))

    return finish


def _fill_all(targets: Sequence[Tensor], parts: Sequence[bytes]) -> None:
    for target, part in zip(targets, parts, strict=False):
        _fill(target, part)


def _fill_slots(slots: Sequence[Sequence[Tensor]], parts: Sequence[Sequence[bytes]]) -> None:
    for slot, part in zip(slots, parts, strict=False):
        _fill_all(slot, part)


def _nothing(parts: Sequence[Any]) -> None:
    del parts


def _refusing(name: str) -> Callable[..., Any]:
    def call(self: LockStepGroup, *arguments: Any, **named: Any) -> Any:
        del self, arguments, named
        raise RefusedError(f"refused while the script is examined: {name} is not examined (docs/operations.md)")

    return call


NOT_EXAMINED = ("recv_anysource", "split_group", "merge_remote_group")
"""Methods of a group that a script may call and that the lock-step server does not know."""
for _name in NOT_EXAMINED:
    setattr(LockStepGroup, _name, _refusing(_name))
for _name in METHODS:
    setattr(LockStepGroup, _name, _method(_name))


def register_backend() -> None:
    """Makes `BACKEND` a backend of torch, for every device."""

    def create(store: Any, rank: int, size: int, timeout: Any) -> LockStepGroup:
        del store, timeout
        return LockStepGroup(rank, size)

    dist.Backend.register_backend(BACKEND, create, devices=["cpu", "cuda"])
