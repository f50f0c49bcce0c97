"""Which functions of Python's give their caller what they have given it before. Needs no torch.

[Note: returned again]
In the compared steps Python tells of each call and each return of the training thread (``sys.setprofile``). Of a call
that a line of the program makes, that takes `MIN_NS` or more and in which nothing of torch's is called, the value that
it gives is made a digest of: of its pickle, where that runs no code of the program's. A digest that the same line has
been given before, by the same function, in an earlier step or the same, was not worth the call: it could be kept until
what it is made of changes. Small values (`MIN_BYTES`), flags and counts, say nothing of what was done for them.
"""

import contextlib
import hashlib
import inspect
import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from emberward.events import Owner, main_package, owner_of

MIN_NS = 200_000
"""Shorter calls cost no step anything, unless they are so many that none of them is worth to be kept."""
MIN_BYTES = 64
MAX_BYTES = 1 << 22
"""Of one value; of larger ones nothing is known."""
MAX_BYTES_IN_ALL = 1 << 26
MAX_EVENTS = 1 << 22
"""Of the compared steps: of a program that calls more nothing is said."""
_ASYNC = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_PLAIN = frozenset({"builtins", "collections", "copyreg", "datetime", "decimal", "fractions", "pathlib", "uuid"})
_LIBRARIES = frozenset({"numpy", "pandas"})
"""Modules whose values give their state away without any code of the program's, and read nothing for it."""
_OF_PICKLES = (
    "__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs__", "__getnewargs_ex__", "__getattribute__",
)  # fmt: skip
Called = tuple[str, int, str]
"""File and line of the caller, and the name of the function."""


class _UnknownError(Exception):
    """A value has no digest: it is too large, or to make one would run code of the program's."""


class _Digest:
    """What a pickle is written to."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        """Takes bytes. Raises _UnknownError where they become too many."""
        size = memoryview(data).nbytes
        self.num_bytes += size
        if self.num_bytes > MAX_BYTES:
            raise _UnknownError
        self._hash.update(data)
        return size

    def digest(self) -> bytes:
        return self._hash.digest()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Lets pass what pickles itself by what it holds alone."""
        kind = type(value)
        module = kind.__module__.partition(".")[0]
        if module in _PLAIN or (module in _LIBRARIES and getattr(value, "nbytes", 0) <= MAX_BYTES):
            return NotImplemented
        is_bare = all(getattr(kind, name, None) is getattr(object, name, None) for name in _OF_PICKLES)
        if is_bare and module not in _LIBRARIES | {"torch"} and not isinstance(value, list | dict):
            return NotImplemented
        raise _UnknownError


class ReturnsWatch:
    """Follows the calls of the training thread between `start` and `stop`. All but `lines` is for that thread."""

    def __init__(self, num_calls: Callable[[], int]) -> None:
        """`num_calls`: how many calls of torch's there were so far."""
        self._num_calls = num_calls
        self._open: list[tuple[int, int]] = []
        """When the calls that have not ended began, and how many of torch's there had been."""
        self._seen: dict[Called, set[bytes]] = defaultdict(set)
        self._spent: dict[Called, list[int]] = defaultdict(lambda: [0, 0, 0])
        """Nanoseconds of what was given again, of all calls, and how often it was."""
        self._owners: dict[CodeType, Owner] = {}
        self._num_bytes = self._num_events = 0
        self._is_on = self._is_first = False

    def start(self) -> None:
        """Begins to follow, unless somebody else does."""
        if sys.getprofile() is None:
            self._is_on = self._is_first = True
            sys.setprofile(self._event)

    def stepped(self) -> None:
        """A step has ended: what the first one was given is what later ones are compared with."""
        self._num_bytes = 0
        if self._is_first:
            self._spent.clear()
        self._is_first = False

    def stop(self) -> None:
        """Ends it."""
        if self._is_on and sys.getprofile() == self._event:
            sys.setprofile(None)
        self._is_on = False
        self._open.clear()
        self._seen.clear()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Lines of a file of operations: the caller's file and line, the function, the share of its calls' time that
        gave what they had given before, and how many did."""
        for called, (again_ns, all_ns, count) in self._spent.items():
            if again_ns:
                yield {"returned": [*called, again_ns / all_ns, count]}

    def _event(self, frame: FrameType, event: str, value: Any) -> None:
        if event == "call":
            self._open.append((time.perf_counter_ns(), self._num_calls()))
        elif event == "return" and self._open:
            began_ns, num_calls = self._open.pop()
            took_ns = time.perf_counter_ns() - began_ns
            if took_ns >= MIN_NS and value is not None and num_calls == self._num_calls():
                with contextlib.suppress(Exception):  # What goes wrong here is no business of the program's.
                    self._note(frame, value, took_ns)
        self._num_events += 1
        if self._num_events > MAX_EVENTS:
            self._spent.clear()
            self.stop()

    def _note(self, frame: FrameType, value: Any, took_ns: int) -> None:
        caller = frame.f_back
        if caller is None or frame.f_code.co_flags & _ASYNC or self._owner(caller.f_code) is not Owner.USER:
            return
        if self._owner(frame.f_code) is Owner.OURS or "/torch/" in frame.f_code.co_filename:
            return
        called = caller.f_code.co_filename, caller.f_lineno, frame.f_code.co_name
        spent = self._spent[called]
        spent[1] += took_ns
        digest = self._digest_of(value)
        if digest is not None and digest in self._seen[called]:
            spent[0] += took_ns
            spent[2] += 1
        elif digest is not None:
            self._seen[called].add(digest)

    def _digest_of(self, value: Any) -> bytes | None:
        if self._num_bytes > MAX_BYTES_IN_ALL:
            return None
        found = _Digest()
        with contextlib.suppress(Exception):
            _Pickler(found, protocol=5).dump(value)
            self._num_bytes += found.num_bytes
            return found.digest() if found.num_bytes >= MIN_BYTES else None
        self._num_bytes += found.num_bytes
        return None

    def _owner(self, code: CodeType) -> Owner:
        if code not in self._owners:
            self._owners[code] = owner_of(code.co_filename, main_package())
        return self._owners[code]
