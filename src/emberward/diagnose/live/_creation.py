"""A process group that not every rank creates, by the stacks of a snapshot and what the rings know of the group."""

from collections.abc import Mapping, Sequence

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
    return by_stacks(
        pair.ranked_readings(), members, made, left_out({r: ring.groups_made for r, ring in rings.items()})
    )


def left_out(made: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """The group that a rank did not create, between two that it did, while most ranks created it there. Pure.

    Of the oldest groups a ring may hold no record any more: nothing is known before the first that a rank still has.
    """
    found: dict[int, str] = {}
    for rank, own in made.items():
        for n, name in enumerate(own[1:], start=1):
            before = [_between(names, own[n - 1], name) for other, names in made.items() if other != rank]
            known = [names for names in before if names is not None]
            lacked = [names[0] for names in known if names]
            if 2 * len(lacked) > len(known):
                found.setdefault(rank, lacked[0])
    return found


def _between(names: Sequence[str], early: str, late: str) -> Sequence[str] | None:
    """The groups that were created between two; None where these are not both there, in that order."""
    if early not in names or late not in names[names.index(early) :]:
        return None
    return names[names.index(early) + 1 : names.index(late)]
