"""What a rank puts into torch's stores and waits for there, by key. Standard library: `_wrap` gives torch's classes.

[Note: what is kept of a store]
A store waits below Python, and its stack tells no key. So the last calls that the program makes of any store are kept
in memory, with the key, what the program's own PrefixStores put before it, the line, the number of the ring's newest
call before it, and whether the rank is in it. Those that torch makes for itself are not. The heart copies them beside
torch's flight recorder when nothing moves; a word of the ring counts what changed, so that a reader knows a copy that
is old. Who asks for the same keys at the same line again and again, by ``check``, ``add`` of 0 or a wait with a short
limit, waits for them too.
"""

import functools
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from emberward.events import Owner
from emberward.sources._site import SiteFinder
from emberward.sources.ring import RingWriter, StoreWay

if TYPE_CHECKING:
    from emberward.sources._live import LiveRecorder

    Current = Callable[[], LiveRecorder | None]

MAX_CALLS = 256
"""Calls that are kept; one that is made again and again is one."""
MAX_KEYS = 256
"""Keys of one call; one with more is kept without any."""
MAX_KEY = 200
"""Characters of a key that are kept, the last ones."""
MAX_COPY_BYTES = 64 << 10
"""The newest calls are copied, as far as they have room."""
MIN_ASKED = 3
"""Calls alike, one after the other, that are a wait."""
PAUSES = 2.0
"""Who has not asked for this many of its own pauses has gone on. As long as `_heart.Silence` waits."""

_WAYS = {
    "set": StoreWay.SET,
    "append": StoreWay.SET,
    "compare_set": StoreWay.SET,
    "multi_set": StoreWay.SET,
    "add": StoreWay.SET,
    "get": StoreWay.WAIT,
    "multi_get": StoreWay.WAIT,
    "wait": StoreWay.WAIT,
    "check": StoreWay.ASK,
}


@dataclass(slots=True)
class _Call:
    way: StoreWay
    keys: tuple[str, ...]
    place: tuple[str, int, str]
    after: int
    first_ns: int
    last_ns: int
    is_inside: bool = True
    count: int = 1


class StoreLog:
    """The last calls of one process. See [Note: what is kept of a store]."""

    def __init__(self, writer: RingWriter) -> None:
        self._writer = writer
        self._finder = SiteFinder()
        self._calls: deque[_Call] = deque(maxlen=MAX_CALLS)
        self.number = 0

    def is_of_program(self, caller: FrameType) -> bool:
        """Whether the frame is the program's or a package's, and not torch's."""
        return self._finder.whose(caller.f_code.co_filename)[0] in (Owner.USER, Owner.PACKAGE)

    def begin(self, way: StoreWay, keys: Sequence[str]) -> _Call | None:
        """The call that the caller's caller makes now; None for one that is not the program's, or a wait beside it."""
        if not self.is_of_program(sys._getframe(2)):
            return None
        if way is not StoreWay.SET and threading.current_thread() is not threading.main_thread():
            return None
        site, now = self._finder.here(), time.monotonic_ns()
        if site is None:
            return None
        place, names = (site.file, site.line, site.function or ""), tuple(keys if len(keys) <= MAX_KEYS else ())
        last = self._calls[-1] if self._calls else None
        if last is not None and (last.keys, last.place) == (names, place) and StoreWay.SET not in (way, last.way):
            last.way, last.is_inside, last.last_ns, last.count = way, True, now, last.count + 1
            return last
        self._calls.append(_Call(way, names, place, self._writer.last_number, now, now))
        self._changed()
        return self._calls[-1]

    def end(self, call: _Call, *, has_raised: bool) -> None:
        """The call has returned, or raised: its keys were not there in time."""
        call.is_inside, call.last_ns = False, time.monotonic_ns()
        if call.way is StoreWay.WAIT and has_raised:
            call.way = StoreWay.ASK
        elif call.way is StoreWay.WAIT:
            self._changed()

    def _changed(self) -> None:
        self.number += 1
        self._writer.store(self.number)

    def copy(self) -> bytes:
        """The calls as JSON, the newest ones that have room."""
        number, now = self.number, time.monotonic_ns()
        rows: list[str] = []
        room = MAX_COPY_BYTES
        for n, call in enumerate(reversed(list(self._calls))):
            row = json.dumps([call.way.value, call.keys, *call.place, call.after, _waits(call, now, is_last=n == 0)])
            room -= len(row)
            if room < 0:
                break
            rows.append(row)
        return f'{{"number": {number}, "calls": [{", ".join(reversed(rows))}]}}'.encode()


def _waits(call: _Call, now: int, *, is_last: bool) -> bool:
    if call.way is StoreWay.WAIT and call.is_inside:
        return True
    if call.way is not StoreWay.ASK or not is_last or call.count < MIN_ASKED:
        return False
    return call.is_inside or now - call.last_ns <= PAUSES * (call.last_ns - call.first_ns) / (call.count - 1)


def wrap_stores(live: "LiveRecorder", store: Any, prefix_store: Any, current: "Current") -> None:
    """Puts a log between torch's stores and their callers. `store`, `prefix_store`: torch's classes."""
    prefixes: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
    live.store = log = StoreLog(live.writer)
    original_init = prefix_store.__init__

    @functools.wraps(original_init)
    def init(self: Any, prefix: str, store: Any) -> None:
        original_init(self, prefix, store)
        # What torch puts before the keys of a group's own store says nothing to the program.
        own = f"{prefix}/" if log.is_of_program(sys._getframe(1)) else ""
        prefixes[self] = prefixes.get(store, "") + own

    prefix_store.__init__ = init
    for name, way in _WAYS.items():
        if hasattr(store, name):
            setattr(store, name, _wrapped(way, getattr(store, name), prefixes, current))


def _wrapped(
    way: StoreWay,
    original: Callable[..., Any],
    prefixes: Mapping[Any, str],
    current: "Current",
) -> Callable[..., Any]:
    is_add = original.__name__ == "add"

    @functools.wraps(original)
    def call(store: Any, *args: Any, **named: Any) -> Any:
        live = current()
        log = None if live is None else live.store
        if live is None or log is None:
            return original(store, *args, **named)
        noted = None
        try:
            # torch 2.13 takes them by position alone.
            first, *rest = (*args, *named.values())
            keys = [first] if isinstance(first, str) else list(first)
            asks = is_add and rest == [0]
            before = prefixes.get(store, "")
            noted = log.begin(StoreWay.ASK if asks else way, [(before + key)[-MAX_KEY:] for key in keys])
        except Exception as error:  # noqa: BLE001 (a record is not worth the program)
            live.problem("a call of a store not recorded", error)
        if noted is None:
            return original(store, *args, **named)
        has_raised = True
        try:
            result = original(store, *args, **named)
            has_raised = False
            return result
        finally:
            log.end(noted, has_raised=has_raised)

    return call
