"""The one way to read what another host may have replaced meanwhile."""

import errno
import time
from collections.abc import Callable
from typing import TypeVar

TRIES = 6
PAUSE_S = 0.02
"""Before the second try, and twice as long before each further one: 0.6 s in all."""

Read = TypeVar("Read")


def anew(read: Callable[[], Read]) -> Read:
    """What `read` gives, which opens its file itself; called again where it raises ESTALE, TRIES times in all. Blocks.

    Raises what `read` raises. See [Note: what a shared file system promises].
    """
    for number in range(TRIES - 1):
        try:
            return read()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        time.sleep(PAUSE_S * 2**number)
    return read()
