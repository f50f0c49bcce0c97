"""Host memory that a process and its child share, for the copy of what is to be saved."""

import contextlib
import mmap
import os
import sys
import weakref

ALIGN_BYTES = 64
"""A cache line: where each part begins."""


class SharedMemory:
    """Memory behind a descriptor without a name (memfd_create(2)).

    It is freed when nobody holds the descriptor or a map of it any more, however they end: nothing can be left behind.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("emberward-save", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self.descriptor)
        self.generation = 0
        """Counts the calls of `take`: a child maps anew when it has changed."""

    def take(self, num_bytes: int) -> mmap.mmap:
        """A map of `num_bytes` of new memory; maps that were given before must not be touched any more.

        All of it is allocated before it is mapped, so that what is missing is an OSError here and not a SIGBUS later.
        Blocks, about 0.5 s a GB.
        """
        os.ftruncate(self.descriptor, 0)
        os.posix_fallocate(self.descriptor, 0, max(num_bytes, 1))
        self.generation += 1
        return mmap.mmap(self.descriptor, max(num_bytes, 1), flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)


def shared_memory() -> SharedMemory | None:
    """Memory of that kind; None where the system has none."""
    if sys.platform == "linux" and hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return SharedMemory()
    return None


def own_memory(num_bytes: int) -> mmap.mmap:
    """Memory of this process alone, in large pages where the system has them."""
    area = mmap.mmap(-1, max(num_bytes, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    return area
