"""A process group that not every rank creates, by the stacks of a look and what the rings know of the group."""

from emberward.findings import Finding
from emberward.sources.dumps import creation_findings as by_stacks
from emberward.sources.live._scene import Scene


def creation_findings(scene: Scene) -> list[Finding]:
    """A finding when some ranks wait in a group's creation and the others in something else that needs them."""
    if len(scene.readings) < len(scene.look.ranks):
        return []
    rings = [seen.ring for seen in scene.look.ranks.values() if seen.ring is not None]
    members = {rank for ring in rings for rank in ring.creating_ranks}
    return by_stacks(scene.ranked_readings(), members)
