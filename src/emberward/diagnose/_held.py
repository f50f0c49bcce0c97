"""A lock between processes that one rank holds while it waits for the very ranks that wait for the lock."""

from collections.abc import Sequence

from emberward.diagnose._frames import Frame, LineOf
from emberward.diagnose._parting import common_function
from emberward.diagnose._program import is_entered, place_at
from emberward.diagnose._say import verb
from emberward.diagnose._waits import Reading, finding_on, who_text
from emberward.events import WAITING, HostState
from emberward.findings import Cause, Certainty, Finding, Kind


def held_findings(readings: Sequence[Reading], line_of: LineOf) -> list[Finding]:
    """A finding when all that are free wait to enter a ``with`` inside whose block one rank waits for its peers.

    A lock of threads, which no other process can hold, is entered without a frame of its own, or by `threading`.
    """
    blocked = [reading for reading in readings if reading.kind not in WAITING]
    if not blocked or any(reading.kind is not HostState.LOCK for reading in blocked):
        return []
    holders = [reading for reading in readings if reading.kind in WAITING and _holds(reading, blocked[0], line_of)]
    if len(holders) != 1 or not all(_holds(holders[0], reading, line_of) for reading in blocked):
        return []
    holder = holders[0]
    return [
        finding_on(
            "H106",
            f"{holder.process.who} {holder.text}, inside a lock for which {who_text(blocked)} "
            f"{verb(blocked, 'waits', 'wait')} at {blocked[0].site}",
            holders,
            waiting=blocked,
            kind=Kind.DEADLOCK,
            cause=Cause.LOCK,
            certainty=Certainty.INFERRED,
            evidence=[f"{reading.process.who} {reading.text}" for reading in [holder, *blocked[:7]]],
            ruled_out=("a busy rank: every rank waits",),
            next_step=f"make no call to other ranks at {holder.site} while the lock is held",
        )
    ]


def _holds(holder: Reading, blocked: Reading, line_of: LineOf) -> bool:
    found = common_function(blocked.frames, holder.frames)
    if found is None:
        return False
    entry, inside = (place_at(frame, line_of) for frame in found)
    below = blocked.frames[: blocked.frames.index(found[0])]
    return entry is not None and inside is not None and _is_shared(below) and is_entered(entry, inside)


def _is_shared(below: Sequence[Frame]) -> bool:
    python = [frame for frame in below if not frame.is_native]
    return bool(python) and not any(frame.file.endswith("threading.py") for frame in python)
