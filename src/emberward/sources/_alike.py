"""Which lines of the program compute what was computed before, in the step before or in the same. Needs torch.

[Note: computed alike]
In the last steps of the warm-up torch hands each of its calls from Python to a mode of ours, which numbers values
(value numbering: Alpern, Wegman, Zadeck, POPL 1988; here over steps). A call's number is that of its function and of
what it is given: plain values as they are, a tensor by the call of this step that made it or wrote to it last, any
other tensor of the host by its numbers, read once a step (of larger ones every n-th, `MAX_READ` in all), of a device by
being the same object at the same version. What requires gradients is alike within a step alone, as the same object at
the same version. A call whose number the step before had too, and which drew no random number, computed what that had
computed; so did one whose number this step has had, but in a backward, which computes a forward again to save memory.
Of two such calls of a step that one was in vain which keeps no graph for a backward, else the later one; where a
backward goes through both, one would have to go once. Each call is timed, on a processor: what of the time below a line
was computed before, is told by the lines around it.

What is written to later by a call that is not alike was needed anew: zeros that a step adds to. A call that gives no
tensor and reads no number is not counted: it asks for a shape. The order of modes, and where torch takes another way
while there is one (the fast path of an encoder in evaluation), are left as they are.
"""

import contextlib
import itertools
import sys
import time
import weakref
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode

from emberward.events import Owner, main_package, owner_of
from emberward.sources._copies import CopiesWatch
from emberward.sources._inputs import InputsWatch
from emberward.sources._modes import insert, remove
from emberward.sources._of_all import OfAllWatch
from emberward.sources._padding import PaddingWatch
from emberward.sources._picks import PicksWatch, storage_of
from emberward.sources._randomness import is_random_state, random_state
from emberward.sources._rows import RowsWatch
from emberward.sources._tables import TablesWatch
from emberward.sources._values import MAX_PLAIN, has_compiled, tensors_in
from emberward.sources._wide import WideWatch

NUM_COMPARED = 3
"""Steps before the observed ones: one to compare with, and two that have to be alike."""
MAX_READ = 1 << 18
"""Elements of a tensor that are read; a step reads `MAX_READ_IN_ALL` at most."""
MAX_READ_IN_ALL = 1 << 26
MAX_CALLS = 60_000
"""Of all compared steps. Of longer ones nothing is said."""
MAX_FRAMES = 200
_READS = frozenset(
    {"item", "tolist", "equal", "allclose", "is_nonzero"}
    | {f"__{each}__" for each in ("bool", "int", "float", "index", "complex", "contains", "repr", "str", "format")}
)
"""Calls that give no tensor and do read numbers."""
_LENDS = frozenset({"numpy", "__array__", "data_ptr", "untyped_storage", "storage", "__dlpack__", "share_memory_"})
"""Calls after which others than torch may write to a tensor's memory."""
_ASKS = frozenset({"__get__", "__len__", "dim", "element_size", "is_contiguous", "numel", "size", "stride", "type"})
_TAKES = frozenset({"grad", "__deepcopy__"})
"""The first give no tensor and read no number; the second give one, and read another by no operation."""
_DATA: Any = torch.Tensor.data.__set__  # type: ignore[attr-defined]
_UNKNOWN = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "empty_permuted"})
_FAST_PATHS = (nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerEncoderLayer)
"""Modules that in evaluation compute in another way where there is a mode."""
_PLAIN = (int, float, bool, str, bytes, type(None), complex)
Line = tuple[str, int]
Where = tuple[Line, ...]
"""The program's lines around a call, the innermost first."""


class _UnlikeError(Exception):
    """What a call is given has no number: it is new in each step, or nobody can tell."""


@dataclass(slots=True)
class _Known:
    """A tensor whose number is known, and when that was."""

    tensor: Callable[[], torch.Tensor | None] | None
    """None of a parameter: one with a weak reference cannot be swapped for another (`torch.utils.swap_tensors`)."""
    version: int
    writes: int
    number: int | None
    step: int


@dataclass(slots=True)
class _Call:
    """The first call of a step that has a number."""

    where: Where
    is_own: bool
    took_ns: int
    has_graph: bool


@dataclass(slots=True)
class _Spent:
    """Nanoseconds at a place: of calls that are alike and of the others; of the alike ones of those that no library
    makes and that keep a graph, and of those through which a backward goes."""

    alike: int = 0
    other: int = 0
    own: int = 0
    behind: int = 0


class AlikeWatch:
    """Compares steps between `start` and `stop`. All but `lines` is for the training thread."""

    def __init__(self, on_read: Callable[[list[torch.Tensor]], None] = lambda read: None) -> None:
        """`on_read` is told of tensors that a call has read by no operation, or that gives none."""
        self._on_read = on_read
        self.is_on = self.is_reading = False
        """`is_reading`: what is called of torch now is this watch's own."""
        self._mode = _Mode(self)
        self._undo: list[Callable[[], None]] = []
        self._numbers: dict[Any, int] = {}
        self._before: set[int] = set()
        self._now: dict[int, _Call | None] = {}
        self._known: dict[int, _Known] = {}
        self._writes: dict[int, int] = defaultdict(int)
        """By storage, how often a call wrote to it."""
        self._lent: set[int] = set()
        self._made: dict[int, list[_Call]] = defaultdict(list)
        """By storage, the calls that are alike and wrote to it in this step."""
        self._spent: dict[Where, _Spent] = defaultdict(_Spent)
        self._objects = itertools.count()
        self._step = 0
        self._num_read = self.num_calls = 0
        self._fast: list[nn.Module] = []
        """Modules on their fast path, for which our mode is taken off."""
        self._fast_ns = 0
        self._owners: dict[CodeType, Owner] = {}
        self._rows, self._picks, self._tables, self._padding = RowsWatch(), PicksWatch(), TablesWatch(), PaddingWatch()
        self._copies, self.inputs, self._wide, self._of_all = CopiesWatch(), InputsWatch(), WideWatch(), OfAllWatch()
        self._parts = (
            *(self._rows, self._picks, self._tables, self._padding),
            *(self._copies, self.inputs, self._wide, self._of_all),
        )

    def start(self) -> None:
        """Begins to compare, where no graph was compiled: it would be compiled again for the mode."""
        if has_compiled():
            return
        self.is_on = True
        insert(self._mode)
        before = modules.register_module_forward_pre_hook(self._enter)
        after = modules.register_module_forward_hook(lambda module, *_: self._leave(module), always_call=True)
        self._undo += [before.remove, after.remove, *self._of_all.start()]

    def stepped(self) -> None:
        """A step has ended."""
        if not self.is_on:
            return
        self._step += 1
        self._before, self._now = {*self._now}, {}
        self._made.clear()
        self._num_read = 0
        for part in self._parts:
            part.stepped()
        if self._step < 2:
            self._forget()

    def stop(self) -> None:
        """Ends it. In a call of torch's our mode is not there to be removed, and stays without effect."""
        if not self.is_on:
            return
        self.is_on = False
        remove(self._mode)
        while self._undo:
            self._undo.pop()()
        for each in (self._numbers, self._before, self._now, self._known, self._writes, self._made):
            each.clear()
        if self._step < NUM_COMPARED or self.num_calls > MAX_CALLS:
            self._forget()
        self._tables.stop()
        self._padding.stop()
        self._copies.stop()

    def _forget(self) -> None:
        self._spent.clear()
        for part in self._parts:
            part.forget()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: for each place that calls torch the program's lines around it, the innermost
        first, the nanoseconds of calls that are alike and of others, of those that are alike, keep a graph and are made
        by no library, and its share in all that has a backward. None where none is alike. Then those of its parts."""
        if any(spent.alike for spent in self._spent.values()):
            all_ns = max(self._rows.graph_ns, 1)
            for where, spent in self._spent.items():
                yield {"alike": [where, spent.alike, spent.other, spent.own, spent.behind / all_ns]}
        yield from self._padding.lines()
        yield from self._rows.lines()
        yield from self._picks.lines(self._rows.graph_ns)
        yield from self._tables.lines()
        yield from self._copies.lines()
        yield from self._wide.lines()
        yield from self._of_all.lines(self._rows.graph_ns)

    def call(self, func: Any, args: Any, named: Any) -> Any:
        """What the call gives; notes what it computes. Raises what the call raises, and nothing else."""
        self.num_calls += 1
        if self.num_calls > MAX_CALLS or torch.compiler.is_compiling():
            return func(*args, **named)
        key, given, versions, state = None, [], [], None
        with self._careful():
            given = [*tensors_in((args, named))]
            versions = [_version(each) for each in given]
            key = self._key(func, args, named)
            is_again = key is not None and (key in self._before or key in self._now)
            state = random_state() if is_again else None
        began_ns = time.thread_time_ns()
        result = func(*args, **named)
        took_ns = time.thread_time_ns() - began_ns
        with self._careful():
            if state is not None and not is_random_state(state):
                key = None
            first = None if key is None else self._now.get(key)
            storages, has_written = self._note(func, key, given, versions, result)
            name = getattr(func, "__name__", "")
            if name in _TAKES or (name not in _ASKS and next(tensors_in(result), None) is None):
                self._on_read(given)
            self.inputs.note(func, named, given, lambda: self._where(sys._getframe(3))[0])
            if storages or name in _READS:
                where, is_own = self._where(sys._getframe(1))
                gotten = [*tensors_in(result)]
                made = _Call(where, is_own, took_ns, any(each.requires_grad for each in gotten))
                is_alike = key is not None and (
                    key in self._before or (first is not None and self._is_again(key, made, first, result))
                )
                if key is not None and first is None:
                    self._now[key] = made
                self._count(made, is_alike, storages, has_written)
                of_program = where if is_own else ()
                self._rows.note(name, args, named, given, result, where, took_ns, is_own=is_own)
                self._picks.note(name, args, given, result, of_program, took_ns)
                self._tables.note(func, args, named, given, made.has_graph)
                self._padding.note_made(where, given, gotten)
                self._copies.note(name, given, result, of_program, took_ns)
                self._wide.note(name, named, given, gotten, where, took_ns)
                self._of_all.note(name, args, named, given, gotten, where, took_ns)
            if func is nn.functional.embedding:
                self._padding.note(self._where(sys._getframe(1))[0], args, named)
        return result

    @contextlib.contextmanager
    def _careful(self) -> Iterator[None]:
        """Of what goes wrong here the program learns nothing, and nothing is said of it."""
        self.is_reading = True
        try:
            yield
        except Exception:  # noqa: BLE001 (a program is not ended because it is profiled)
            self.num_calls = MAX_CALLS + 1
        finally:
            self.is_reading = False

    def _note(
        self, func: Any, key: int | None, given: list[torch.Tensor], versions: list[int], result: Any
    ) -> tuple[set[int], bool]:
        """Numbers what a call made or wrote to. Returns the storages of that, and whether it wrote to what it got."""
        name = getattr(func, "__name__", "")
        if name in _LENDS:
            self._lent |= {storage_of(each) for each in given}
        changed = [each for each, before in zip(given, versions, strict=True) if _version(each) != before]
        if name == "__set__" and given:
            # A gradient that is given to a tensor, or taken, changes no number of it.
            changed, key = given[: func == _DATA], None
        held = {storage_of(each) for each in given}
        new = [each for each in tensors_in(result) if not any(each is other for other in given)]
        for each in new:
            if (storage := storage_of(each)) not in held:
                # Memory that was another tensor's before.
                self._made.pop(storage, None)
                self._lent.discard(storage)
        for each in changed:
            self._writes[storage_of(each)] += 1
        made = [*new, *changed]
        for index, each in enumerate(made):
            self._keep(each, None if key is None or name in _UNKNOWN else self._number(("of", key, index)))
        if key is not None:
            self._now.setdefault(key, None)
        return {storage_of(each) for each in made}, bool(changed)

    def _is_again(self, key: int, call: _Call, first: _Call, result: Any) -> bool:
        """Whether a call did in vain what the first one of its number had done in this step; else, the first did."""
        if not call.has_graph:
            return True
        if torch._C._current_graph_task_id() >= 0:
            return False  # In a backward: of a checkpoint.
        if first.has_graph:
            self._ask_backward(call, result)
            return True
        self._move(first, is_alike=True)
        self._now[key] = call
        return False

    def _ask_backward(self, call: _Call, result: Any) -> None:
        """Notes whether a backward goes through what a call has made."""
        nodes = [each.grad_fn for each in tensors_in(result) if each.grad_fn is not None]
        left = [call]

        def goes(_: Any) -> None:
            if self.is_on and left:
                self._spent[left.pop().where].behind += call.took_ns

        for node in nodes:
            node.register_prehook(goes)

    def _count(self, call: _Call, is_alike: bool, storages: set[int], has_written: bool) -> None:
        self._spent[call.where].other += call.took_ns
        if is_alike:
            self._move(call, is_alike=True)
        for storage in storages:
            if is_alike:
                self._made[storage].append(call)
            elif has_written:
                for each in self._made.pop(storage, ()):
                    self._move(each, is_alike=False)

    def _move(self, call: _Call, *, is_alike: bool) -> None:
        """Counts a call that was counted as of the others, or of those that are alike, as the opposite."""
        spent, took_ns = self._spent[call.where], call.took_ns if is_alike else -call.took_ns
        spent.alike += took_ns
        spent.other -= took_ns
        spent.own += took_ns * (call.is_own and call.has_graph)

    def _key(self, func: Any, args: Any, named: Any) -> int | None:
        try:
            return self._number((func, self._word(args), self._word(named)))
        except (_UnlikeError, TypeError):  # What is no key is not known either.
            return None

    def _number(self, value: Any) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _word(self, value: Any) -> Any:
        """Something that is equal for what is alike, and can be a key. Raises _UnlikeError for what is not."""
        if isinstance(value, torch.Tensor):
            return "tensor", self._of(value)
        if isinstance(value, _PLAIN):
            return type(value).__name__, value
        if isinstance(value, list | tuple):
            if len(value) > MAX_PLAIN:
                raise _UnlikeError
            if all(type(each) in _PLAIN for each in value):
                return "plain", *{type(each).__name__ for each in value}, *value
            return type(value).__name__, *map(self._word, value)
        if isinstance(value, dict):
            return "dict", *((name, self._word(each)) for name, each in value.items())
        if isinstance(value, slice):
            return "slice", *map(self._word, (value.start, value.stop, value.step))
        if type(value).__module__ == "numpy":
            return "numpy", *_of_array(value)
        if isinstance(value, torch.Generator):
            raise _UnlikeError
        if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format | type | type(...)):
            return value
        raise _UnlikeError

    def _of(self, tensor: torch.Tensor) -> int:
        """The number of a tensor. Raises _UnlikeError where it has none."""
        known, storage = self._known.get(id(tensor)), storage_of(tensor)
        is_lent = storage in self._lent
        is_same = known is not None and (known.tensor is None or known.tensor() is tensor)
        if known is not None and is_same and known.version == _version(tensor):
            is_of_now = known.step == self._step or not (tensor.device.type == "cpu" or tensor.requires_grad)
            if is_of_now and known.writes == self._writes[storage] and not (is_lent and known.number is not None):
                if known.number is None:
                    raise _UnlikeError
                return known.number
        number = None
        if type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer):
            number = self._read(tensor)
        self._keep(tensor, number)
        if number is None:
            raise _UnlikeError
        return number

    def _read(self, tensor: torch.Tensor) -> int | None:
        """A number for what the tensor holds; None where that is not known, or costs too much."""
        if tensor.device.type != "cpu" or tensor.requires_grad:
            return self._number(("object", next(self._objects)))
        if tensor.layout is not torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return None
        size = tensor.numel()
        if (size > MAX_READ and not tensor.is_contiguous()) or not _is_there(tensor):
            return None
        self._num_read += min(size, MAX_READ)
        if self._num_read > MAX_READ_IN_ALL:
            return None
        try:
            with torch.no_grad():
                # A copy: memory that numpy has seen cannot be resized any more, which FSDP does.
                read = tensor.detach().reshape(-1)[:: max(-(-size // MAX_READ), 1)].clone()
                sums = zlib.crc32(read.view(torch.uint8).numpy().data) if size else 0
        except (RuntimeError, TypeError):  # Of a kind that has no plain bytes.
            return None
        return self._number(("holds", tensor.dtype, tuple(tensor.shape), sums))

    def _keep(self, tensor: torch.Tensor, number: int | None) -> None:
        version = _version(tensor)
        if version >= 0:
            writes = self._writes[storage_of(tensor)]
            reference = None if isinstance(tensor, nn.Parameter) else weakref.ref(tensor)
            self._known[id(tensor)] = _Known(reference, version, writes, number, self._step)

    def _where(self, frame: FrameType | None) -> tuple[Where, bool]:
        """The program's lines around a call, none of an optimizer's own, and whether no library makes it."""
        found: list[Line] = []
        program, is_own = main_package(), True
        for _ in range(MAX_FRAMES):
            if frame is None:
                break
            code = frame.f_code
            if "/torch/optim/" in code.co_filename:
                return (), False
            if code not in self._owners:
                self._owners[code] = owner_of(code.co_filename, program)
            if self._owners[code] is Owner.USER:
                found.append((code.co_filename, frame.f_lineno))
            elif self._owners[code] is Owner.PACKAGE and not found:
                is_own = False
            frame = frame.f_back
        return tuple(found), is_own

    def _enter(self, module: nn.Module, given: Any) -> None:
        del given
        self._tables.enter(module)
        if not module.training and isinstance(module, _FAST_PATHS):
            self._fast.append(module)
            if len(self._fast) == 1:
                self._fast_ns = time.thread_time_ns()
                remove(self._mode)

    def _leave(self, module: nn.Module) -> None:
        if self._fast and self._fast[-1] is module:
            self._fast.pop()
            if not self._fast:
                insert(self._mode)
                self._spent[self._where(sys._getframe(1))[0]].other += time.thread_time_ns() - self._fast_ns


class _Mode(TorchFunctionMode):
    """Hands each call of torch's to the watch."""

    def __init__(self, watch: AlikeWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if not self._watch.is_on:
            return func(*args, **(kwargs or {}))
        return self._watch.call(func, args, kwargs or {})


def _version(tensor: torch.Tensor) -> int:
    """How often it was written to; -1 of tensors of inference mode, which do not count that."""
    return -1 if tensor.is_inference() else tensor._version


def _is_there(tensor: torch.Tensor) -> bool:
    """Whether a tensor's storage has all of its numbers: FSDP gives back the memory of those that it does not need."""
    reach = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    num_bytes = (tensor.storage_offset() + reach + 1) * tensor.element_size() if tensor.numel() else 0
    return num_bytes <= tensor.untyped_storage().nbytes()


def _of_array(value: Any) -> tuple[Any, ...]:
    if value.dtype.hasobject or value.size > MAX_READ:
        raise _UnlikeError
    return str(value.dtype), value.shape, zlib.crc32(value.tobytes())
