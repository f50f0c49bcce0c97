"""Where the threads of this process stand. Standard library only.

[Note: no collection while threads are listed]
Before Python 3.11.9 ``sys._current_frames`` makes its objects while it holds the lock of the interpreter's list of
threads. A garbage collection that begins there and meets a ``threading.local`` waits for that lock for ever, and one
that gives the interpreter away leaves it to a thread that may wait for the lock (python/cpython issue 106883). So
collections are off meanwhile. All of it is done within one instruction, in which the interpreter is not given away: the
program cannot see that they are off, nor switch them between what is asked and what is set.
"""

import gc
import operator
import sys
from itertools import chain
from types import FrameType

_CALLS = {True: (gc.disable, sys._current_frames, gc.enable), False: (sys._current_frames,)}
"""What is called where collections are on, and where they are off."""


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's ident. Any thread may call; waits for nothing."""
    calls = chain.from_iterable(map(_CALLS.__getitem__, map(operator.call, (gc.isenabled,))))
    (found,) = filter(None, map(operator.call, calls))
    return found
