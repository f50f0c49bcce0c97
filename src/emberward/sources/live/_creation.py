"""A process group that not every rank creates: ``new_group`` waits for all, members or not."""

from emberward.findings import Cause, Certainty, Finding, Kind
from emberward.sources.dumps import WAITING, StackClass, hang_finding, ranks_text, user_frame, verb, waits
from emberward.sources.live._look import RankLook
from emberward.sources.live._scene import Scene

_BEHIND = frozenset({*WAITING, StackClass.STORE_WAIT, StackClass.EXIT})
"""What a rank does that passed the creation by and now waits for those in it."""


def _site(scene: Scene, rank: int) -> str | None:
    seen: RankLook = scene.look.ranks[rank]
    main = None if seen.own_stacks is None else seen.own_stacks.main
    frame = None if main is None else user_frame(main.frames)
    if frame is not None:
        return frame.site
    return None if seen.ring is None else seen.ring.creating


def creation_findings(scene: Scene) -> list[Finding]:
    """A finding when some ranks wait in a group's creation and the others in something else that needs them."""
    creators = [r for r, seen in scene.look.ranks.items() if scene.is_creating(seen)]
    others = [r for r in scene.look.ranks if r not in creators]
    if not creators or not others:
        return []
    readings = [scene.readings[r] for r in others if r in scene.readings]
    if not readings or any(reading.kind not in _BEHIND for reading in readings):
        return []
    made = [scene.look.ranks[r].ring for r in creators]
    members = {rank for ring in made if ring is not None for rank in ring.creating_ranks}
    is_lone = len(creators) < len(others) and set(creators) != members
    culprits, rest = (creators, others) if is_lone else (others, creators)
    here, there = _site(scene, culprits[0]), _site(scene, rest[0])
    what = (
        f"{ranks_text(culprits)} {verb(culprits, 'creates', 'create')} a group that the others do not create"
        if is_lone
        else f"{ranks_text(culprits)} {verb(culprits, 'does', 'do')} not create the group that "
        f"{ranks_text(rest)} {verb(rest, 'creates', 'create')} at {there}"
    )
    return [
        hang_finding(
            "H129",
            what,
            kind=Kind.MISSING,
            cause=Cause.MISSING_GROUP,
            certainty=Certainty.OBSERVED,
            ranks=culprits,
            waiting=rest,
            hosts=[scene.look.ranks[r].host for r in culprits],
            site=here,
            evidence=(
                f"{waits(creators)} in the creation of a group at {_site(scene, creators[0])}",
                *(f"rank {r} {scene.readings[r].text}" for r in others[:6] if r in scene.readings),
            ),
            ruled_out=("a busy rank: every rank waits",),
            next_step="call new_group on every rank of the job, members or not, in the same order",
        )
    ]
