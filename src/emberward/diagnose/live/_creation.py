"""A process group that not every rank creates, by the stacks of a look and what the rings know of the group."""

from emberward.diagnose import creation_findings as by_stacks
from emberward.diagnose.live._scene import Scene
from emberward.findings import Finding


def creation_findings(scene: Scene) -> list[Finding]:
    """A finding when some ranks wait in a group's creation and the others in something else that needs them."""
    if len(scene.readings) < len(scene.look.ranks):
        return []
    rings = {rank: seen.ring for rank, seen in scene.look.ranks.items() if seen.ring is not None}
    creating = [ring for ring in rings.values() if ring.creating is not None and ring.groups_made]
    members = {rank for ring in creating for rank in ring.creating_ranks}
    names = {ring.groups_made[-1] for ring in creating}
    made = {rank for rank, ring in rings.items() if names & set(ring.groups_made)}
    return by_stacks(scene.ranked_readings(), members, made)
