"""Where the training thread stands in the observed steps, on the clock of their operations. Standard library only.

The sampler looks in other steps, in which no profiler runs. What is done by many small operations is told by both at
once: a look says in which loop of the program the thread is, the profiler how many operations it begins there.
"""

import threading
import time
from collections.abc import Iterator
from types import CodeType
from typing import Any

from emberward.events import main_package, owner_of
from emberward.sources._frames import current_frames
from emberward.sources._sampler import _place_of

PERIOD_S = 0.001
MAX_LOOKS = 10_000
MAX_FRAMES = 200

Stack = tuple[tuple[CodeType, int], ...]


class Looks:
    """Looks at the thread that calls `start` until `stop`. `lines` are what was seen, for another thread to write."""

    def __init__(self) -> None:
        self._ident = 0
        self._seen: list[tuple[int, Stack]] = []
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Looks at the calling thread from now on."""
        self._ident = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="emberward-looks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends that. Does not block."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(PERIOD_S) and len(self._seen) < MAX_LOOKS:
            frame, found = current_frames().get(self._ident), list[tuple[CodeType, int]]()
            now = time.monotonic_ns()
            try:
                while frame is not None and len(found) < MAX_FRAMES:
                    found.append((frame.f_code, frame.f_lasti))
                    frame = frame.f_back
            except AttributeError:
                # Python 3.11 may give a frame that has ended meanwhile (python/cpython issue 99110): seen once.
                continue
            self._seen.append((now, tuple(found)))

    def lines(self) -> Iterator[dict[str, Any]]:
        """The places, each once, and of each look when it was and the numbers of its places, innermost first."""
        program = main_package()
        names: dict[tuple[int, int], int] = {}
        for now, stack in list(self._seen):
            for code, lasti in stack:
                if (id(code), lasti) not in names:
                    names[id(code), lasti] = len(names)
                    owner = owner_of(code.co_filename, program).value
                    yield {"place": _place_of(code, lasti, owner)}
            yield {"look": [now, [names[id(code), lasti] for code, lasti in stack]]}
