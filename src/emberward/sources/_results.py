"""Which operations make what nothing reads. Needs torch.

[Note: results that nothing reads]
In the compared steps every operation below autograd is seen, with the memory that it reads and writes: of these follows
what was for nothing, as a compiler removes dead code (Aho, Lam, Sethi, Ullman, Compilers, 9.1). Read is what an
operation reads that gives no tensor (a number for Python, a comparison), that sends, that runs in a backward, or that
writes into memory which was there before; what the program takes out of a tensor in another way, as an array or a list;
and all that is still held when the watch ends. What an operation reads is read if what it makes is. The rest was made,
and freed, and has led to nothing: layers behind the one whose output is taken, a head that is not asked, a figure that
is shown in few steps. The last of the steps is left out, for what it has made may be read later; so is what lies on a
device, where libraries read tensors by kernels of their own, which are no operations of torch's.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing import reductions

from emberward.sources._below import Below, Where, lines_around
from emberward.sources._forms import FormsWatch
from emberward.sources._picks import storage_of
from emberward.sources._values import tensors_in

MAX_OPERATIONS = 60_000
"""Of all compared steps. Of longer ones nothing is said."""
_WEAK: Any = reductions.StorageWeakRef


@dataclass(slots=True)
class _Operation:
    where: Where
    step: int
    took_ns: int
    given: tuple["_Operation", ...]
    """Those that made what it reads."""
    is_read: bool


@dataclass(slots=True)
class _Memory:
    """Memory that was made since the watch began: whether it is still there, and the operations that wrote into it."""

    storage: Any
    writers: list[_Operation]


class ResultsWatch:
    """Follows the training thread's operations between `start` and `stop`. All but `lines` is for that thread."""

    def __init__(self, is_own: Callable[[], bool] = lambda: False) -> None:
        """`is_own`: whether what is computed now is another watch's."""
        self._is_own = is_own
        self._mode: Below | None = None
        self._memory: dict[int, _Memory] = {}
        """By storage."""
        self._operations: list[_Operation] = []
        self._forms = FormsWatch()
        self._step = 0
        self._is_cut = False

    def start(self) -> None:
        """Follows from now on, where it can."""
        if Below.can_be():
            self._mode = Below(self._call, self._cut)
            self._mode.begin()

    def stepped(self) -> None:
        """A step has ended."""
        self._step += self._mode is not None

    def stop(self) -> None:
        """Ends it, and settles what was read."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.end()
        open_ = [each for each in self._operations if each.is_read]
        for memory in self._memory.values():
            if not memory.storage.expired():
                open_ += memory.writers
        self._memory.clear()
        seen = {id(each) for each in open_}
        while open_:
            each = open_.pop()
            each.is_read = True
            new = [before for before in each.given if id(before) not in seen]
            seen |= {id(before) for before in new}
            open_ += new

    def read(self, tensors: list[torch.Tensor]) -> None:
        """The program has read tensors in a way that is no operation."""
        if self._mode is not None:
            for each in tensors:
                if (memory := self._memory.get(storage_of(each))) is not None:
                    for writer in memory.writers:
                        writer.is_read = True

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: of each place with operations whose results nothing has read the nanoseconds
        of these and of all, and what has another form."""
        if self._is_cut or len(self._operations) > MAX_OPERATIONS:
            return
        yield from self._forms.lines(self._step + 1)
        spent: dict[Where, list[int]] = defaultdict(lambda: [0, 0])
        for each in self._operations:
            if each.step < self._step:
                spent[each.where][0] += 0 if each.is_read else each.took_ns
                spent[each.where][1] += each.took_ns
        for where, (unread_ns, all_ns) in spent.items():
            if unread_ns and where:
                yield {"unread_results": [where, unread_ns, all_ns]}

    def _cut(self) -> None:
        self._is_cut = True

    def _call(self, func: Any, args: Any, named: Any) -> Any:
        """What the operation gives. Raises what it raises, and nothing else."""
        if self._is_own():
            return func(*args, **named)
        began_ns = time.thread_time_ns()
        result = func(*args, **named)
        took_ns = time.thread_time_ns() - began_ns
        if not self._is_cut and len(self._operations) <= MAX_OPERATIONS:
            try:
                self._note(func, args, named, result, took_ns)
            except Exception:  # noqa: BLE001 (a program is not ended because it is profiled)
                self._is_cut = True
        return result

    def _note(self, func: Any, args: Any, named: Any, result: Any, took_ns: int) -> None:
        given = {storage_of(each): each for each in tensors_in((args, named))}
        made = {storage_of(each): each for each in tensors_in(result)}
        sends = func.namespace in ("c10d", "_c10d_functional")
        written = set(given) if sends else _written(func, args, named)
        new = made.keys() - given.keys()
        if not new and not written and made:
            return  # A view.
        is_there_before = any(each not in self._memory for each in written)
        is_elsewhere = any(each.device.type != "cpu" for each in (*given.values(), *made.values()))
        is_backward = torch._C._current_graph_task_id() >= 0
        operation = _Operation(
            lines_around(),
            self._step,
            took_ns,
            tuple(writer for each in given if each in self._memory for writer in self._memory[each].writers),
            is_read=sends or is_there_before or is_elsewhere or not made or is_backward,
        )
        if not is_backward:
            self._forms.note(func, args, named, result, operation.where)
        is_empty = func._schema.name.removeprefix("aten::new_").removeprefix("aten::").startswith("empty")
        if not is_empty:
            self._operations.append(operation)
        for each in new:
            self._memory[each] = _Memory(_WEAK(made[each].untyped_storage()), [] if is_empty else [operation])
        for each in written & self._memory.keys():
            self._memory[each].writers.append(operation)


def _written(func: Any, args: Any, named: Any) -> set[int]:
    """The storages that an operation writes into."""
    arguments = func._schema.arguments if func._schema.is_mutable else ()
    found: set[int] = set()
    for index, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else named.get(argument.name)
            found |= {storage_of(each) for each in tensors_in(value)}
    return found
