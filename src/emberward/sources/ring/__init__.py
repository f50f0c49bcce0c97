"""The live ring: what one rank's process does now, in a file that can be read while the rank is stopped, stuck or dead.

The process writes with `RingWriter`, anyone reads with `read_ring`. Standard library only: the writer is loaded into
any PyTorch program, the reader works where torch is not installed.
"""

from emberward.sources.ring._bytes import Pulse, pulse_of
from emberward.sources.ring._findings import gap_findings, unattached_findings
from emberward.sources.ring._folder import (
    SHARED_MEMORY,
    SUFFIX,
    crash_file,
    find_rings,
    new_ring_folder,
    read_problems,
    remove_ring_folder,
    ring_folder_name,
    ring_name,
    shared_ring_folder,
)
from emberward.sources.ring._format import MAIN_THREAD, Geometry, MarkKind, StoreWay
from emberward.sources.ring._identity import RingIdentity, identity_here
from emberward.sources.ring._reader import read_ring
from emberward.sources.ring._view import Certified, FlightCopy, GroupCount, Mark, RingView, ThreadName
from emberward.sources.ring._writer import RingWriter

__all__ = [
    "MAIN_THREAD",
    "SHARED_MEMORY",
    "SUFFIX",
    "Certified",
    "FlightCopy",
    "Geometry",
    "GroupCount",
    "Mark",
    "MarkKind",
    "Pulse",
    "RingIdentity",
    "RingView",
    "RingWriter",
    "StoreWay",
    "ThreadName",
    "crash_file",
    "find_rings",
    "gap_findings",
    "identity_here",
    "new_ring_folder",
    "pulse_of",
    "read_problems",
    "read_ring",
    "remove_ring_folder",
    "ring_folder_name",
    "ring_name",
    "shared_ring_folder",
    "unattached_findings",
]
