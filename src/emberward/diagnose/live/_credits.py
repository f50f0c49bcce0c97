"""A cycle through a bounded buffer: main threads wait for their own threads, and those for each other's ranks."""

from emberward.diagnose import waits
from emberward.diagnose.live._pair import SnapshotPair
from emberward.diagnose.live._reading import peer_thread
from emberward.events import WAITING
from emberward.findings import Cause, CycleMember, Finding, observed


def credit_findings(pair: SnapshotPair) -> list[Finding]:
    """A deadlock without a culprit, when every rank waits and some wait for a thread of their own that waits too."""
    behind = [r for r in pair.snapshot.ranks if pair.has_peer_thread(r)]
    if not behind:
        return []
    others = [r for r in pair.snapshot.ranks if r not in behind]
    if any(r not in pair.readings or pair.readings[r].kind not in WAITING for r in others):
        return []
    members = []
    lines = []
    for rank in behind:
        reading = pair.readings[rank]
        frame = peer_thread(pair.snapshot.ranks[rank].own_stacks, pair.line_of)
        at = "?" if frame is None else frame.site
        targets = tuple(r for r in pair.snapshot.ranks if r != rank and (r in behind or len(behind) == 1))
        members.append(CycleMember(rank=rank, op="waits for a thread of its own", site=reading.site, waits_for=targets))
        lines.append(f"rank {rank} {reading.text}; its thread waits for a peer at {at}")
    own = "its own" if len(behind) == 1 else "their own"
    return [
        observed(
            "H133",
            f"{waits(behind)} for a buffer that a thread of {own} would free, and that waits for another rank; no one "
            "rank is guilty",
            cause=Cause.CYCLE_CREDIT,
            waiting_ranks=tuple(others),
            cycle=tuple(members),
            evidence=tuple(lines),
            ruled_out=("a busy rank: every rank waits",),
            next="let the buffer hold one more, or receive before the buffer can be full",
        )
    ]
