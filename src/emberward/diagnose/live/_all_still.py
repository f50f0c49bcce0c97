"""A job in which every rank stands still at one place of its own, and none waits for a peer."""

from emberward.diagnose import hang_finding, ranks_text
from emberward.diagnose.live._pair import SnapshotPair
from emberward.events import HostState
from emberward.findings import Finding, Severity

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
