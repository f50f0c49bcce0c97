"""A job in which no rank waits for a peer, and none goes on: all stand still alike, or the last one cannot end."""

from collections.abc import Sequence

from emberward.diagnose import hang_finding, next_of_state, ranks_text
from emberward.diagnose.live._pair import SnapshotPair
from emberward.diagnose.live._severity import end_proof
from emberward.diagnose.live._snapshot import RingFacts
from emberward.events import HostState
from emberward.findings import Certainty, Finding, Severity

MIN_RANKS = 2
_IDLE = frozenset(
    {
        HostState.SLEEP,
        HostState.FILE_READ,
        HostState.SUBPROCESS,
        HostState.LOCK,
        HostState.CHECKPOINT_IO,
        HostState.DATALOADER,
    }
)


def alike_findings(pair: SnapshotPair) -> list[Finding]:
    """A finding when all ranks idle at one line, as two snapshots show: a file system or a lock that all share.

    Ranks that compute, read or write between the snapshots are at work, as in a long evaluation.
    """
    readings = [pair.readings[rank] for rank in pair.snapshot.ranks if rank in pair.readings]
    ranks = list(pair.snapshot.ranks)
    if (
        pair.early is None
        or not MIN_RANKS <= len(ranks) == len(readings)
        or len(ranks) < (pair.snapshot.world_size or 0)
    ):
        return []
    first = readings[0]
    if first.kind not in _IDLE or len({(each.kind, each.place) for each in readings}) > 1:
        return []
    moved = [pair.motions[rank] for rank in ranks]
    if any(not motion.is_known or motion.is_lively or motion.has_called for motion in moved):
        return []
    return [
        hang_finding(
            "H151",
            f"every rank stands still alike: each {first.text}, and none waits for a peer",
            cause=first.cause,
            severity=Severity.NOTICE,
            ranks=ranks,
            hosts=[pair.snapshot.ranks[rank].host for rank in ranks],
            site=first.site,
            evidence=[f"{ranks_text(ranks)}: {first.text}"],
            ruled_out=("one guilty rank: all do the same",),
            next_step="look at what they share: the file system, a lock, a file or a service that all wait for",
        )
    ]


def last_findings(pair: SnapshotPair) -> list[Finding]:
    """Who will not end by itself, when all others ended well: their launcher waits for them."""
    seen = pair.snapshot.ranks
    left = [rank for rank, each in seen.items() if each.process.is_alive]
    gone = [each.ring for rank, each in seen.items() if rank not in left]
    if pair.early is None or not gone or len(seen) < (pair.snapshot.world_size or 0):
        return []
    if any(ring is None or not ring.has_ended for ring in gone):
        return []
    whys = {rank: end_proof(rank, pair) for rank in left if rank in pair.readings}
    if len(whys) < len(left) or None in whys.values():
        return []
    at = {rank: str(pair.readings[rank].place) for rank in left}
    found = []
    for place in dict.fromkeys(at.values()):
        ranks = [rank for rank in left if at[rank] == place]
        reading, who = pair.readings[ranks[0]], ranks_text(ranks)
        do, have = ("does", "it") if len(ranks) == 1 else ("do", "each")
        found.append(
            hang_finding(
                "H153",
                f"{who} {do} not end, and the others have: {have} {reading.text}",
                cause=reading.cause,
                certainty=Certainty.OBSERVED,
                ranks=ranks,
                site=reading.site,
                evidence=[
                    f"the other ranks ended {_since(gone):.0f} s ago, by themselves",
                    *(why for rank in ranks if (why := whys[rank]) is not None),
                ],
                ruled_out=("a peer that is waited for: none is left",),
                next_step=next_of_state(reading.kind, who),
            )
        )
    return found


def _since(rings: Sequence[RingFacts | None]) -> float:
    return min((ring.heartbeat_age_s or 0.0 for ring in rings if ring is not None), default=0.0)
