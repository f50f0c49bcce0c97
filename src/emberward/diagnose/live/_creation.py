"""A process group that not every rank creates, by the stacks of a snapshot and what the rings know of the group."""

from emberward.diagnose import creation_findings as by_stacks
from emberward.diagnose.live._pair import SnapshotPair
from emberward.findings import Finding


def creation_findings(pair: SnapshotPair) -> list[Finding]:
    """A finding when some ranks wait in a group's creation and the others in something else that needs them."""
    if len(pair.readings) < len(pair.snapshot.ranks):
        return []
    rings = {rank: seen.ring for rank, seen in pair.snapshot.ranks.items() if seen.ring is not None}
    creating = [ring for ring in rings.values() if ring.creating is not None and ring.groups_made]
    members = {rank for ring in creating for rank in ring.creating_ranks}
    names = {ring.groups_made[-1] for ring in creating}
    made = {rank for rank, ring in rings.items() if names & set(ring.groups_made)}
    return by_stacks(pair.ranked_readings(), members, made)
